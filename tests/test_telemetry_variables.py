from __future__ import annotations

import pytest

from demur.proxy.telemetry_variables import TelemetryError, configured_exporters

OTLP = {"OTEL_TRACES_EXPORTER": "otlp"}
CONSOLE = {"OTEL_TRACES_EXPORTER": "console"}


@pytest.mark.parametrize(
    ("env", "exporters"),
    [
        ({}, []),
        ({"OTEL_SERVICE_NAME": "x"}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, []),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["otlp"]),
        ({"OTEL_TRACES_EXPORTER": " console , otlp,console"}, ["console", "otlp"]),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, []),
        ({"OTEL_SDK_DISABLED": "True", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, []),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["console"]),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "os, *,"}, ["console"]),
    ],
)
def test_what_the_variables_turn_on(env: dict[str, str], exporters: list[str]) -> None:
    assert configured_exporters(env, "TRACES") == exporters


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: unknown exporter 'zipkin'"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc'",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc'",
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://"}, "OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[x"}, "OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL"),
        (CONSOLE | {"OTEL_BSP_SCHEDULE_DELAY": "abc"}, "OTEL_BSP_SCHEDULE_DELAY: 'abc' is not a whole number from 1"),
        (CONSOLE | {"OTEL_BSP_SCHEDULE_DELAY": "-1"}, "OTEL_BSP_SCHEDULE_DELAY: '-1' is not"),
        (CONSOLE | {"OTEL_BSP_SCHEDULE_DELAY": "9" * 5000}, "OTEL_BSP_SCHEDULE_DELAY: '999"),
        (CONSOLE | {"OTEL_BSP_EXPORT_TIMEOUT": "1s"}, "OTEL_BSP_EXPORT_TIMEOUT: '1s' is not"),
        (CONSOLE | {"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, "OTEL_BSP_MAX_QUEUE_SIZE: '0' is not"),
        (CONSOLE | {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "٣"}, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '٣' is not"),
        (
            CONSOLE | {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "os,nix"},
            "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS: unknown detector 'nix'; installed: ",
        ),
        (OTLP | {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT: 'soon' is not"),
        (OTLP | {"OTEL_EXPORTER_OTLP_TIMEOUT": "nan"}, "OTEL_EXPORTER_OTLP_TIMEOUT: 'nan' is not"),
        (OTLP | {"OTEL_EXPORTER_OTLP_CERTIFICATE": "no.pem"}, "OTEL_EXPORTER_OTLP_CERTIFICATE: there is no file 'no"),
    ],
)
def test_what_cannot_work_is_an_error_that_names_the_variable(env: dict[str, str], message: str) -> None:
    with pytest.raises(TelemetryError) as caught:
        configured_exporters(env, "TRACES")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("headers", ["s3cret", "a=b,s3cret", 'x-key="s3cret"', "x-key=s3cret;", "=s3cret", "x=s3crét"])
def test_headers_that_the_sdk_would_drop_are_an_error_without_their_value(headers: str) -> None:
    with pytest.raises(TelemetryError, match=r"OTEL_EXPORTER_OTLP_HEADERS: header [12] is not name=value") as caught:
        configured_exporters(OTLP | {"OTEL_EXPORTER_OTLP_HEADERS": headers}, "TRACES")
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize(
    "headers", ["a=b", "a=b, x-c = d=e ,", "authorization=Basic%20abc=", "authorization=Basic abc"]
)
def test_headers_that_the_sdk_takes(headers: str) -> None:
    assert configured_exporters(OTLP | {"OTEL_EXPORTER_OTLP_HEADERS": headers}, "TRACES") == ["otlp"]


@pytest.mark.parametrize(
    ("env", "exporters"),
    [
        ({}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c:4318/v1/logs"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, []),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, []),
        ({"OTEL_LOGS_EXPORTER": "console"}, ["console"]),
        ({"OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, []),
        ({"OTEL_LOGS_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "abc"}, ["console"]),
    ],
)
def test_events_have_variables_of_their_own(env: dict[str, str], exporters: list[str]) -> None:
    assert configured_exporters(env, "LOGS") == exporters


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"OTEL_LOGS_EXPORTER": "file"}, "OTEL_LOGS_EXPORTER: unknown exporter 'file'"),
        ({"OTEL_LOGS_EXPORTER": "console", "OTEL_BLRP_MAX_QUEUE_SIZE": "0"}, "OTEL_BLRP_MAX_QUEUE_SIZE: '0' is not"),
        (
            {"OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: 'grpc'",
        ),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "collector"}, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: must be a URL"),
    ],
)
def test_what_cannot_work_for_events_is_an_error_too(env: dict[str, str], message: str) -> None:
    with pytest.raises(TelemetryError) as caught:
        configured_exporters(env, "LOGS")
    assert str(caught.value).startswith(message)


def test_variables_of_what_is_off_do_not_matter() -> None:
    wrong = {"OTEL_BSP_SCHEDULE_DELAY": "abc", "OTEL_EXPORTER_OTLP_TIMEOUT": "abc"}
    assert configured_exporters(wrong, "TRACES") == []
    assert configured_exporters(wrong | OTLP | {"OTEL_SDK_DISABLED": "true"}, "TRACES") == []
    assert configured_exporters(CONSOLE | {"OTEL_EXPORTER_OTLP_TIMEOUT": "abc"}, "TRACES") == ["console"]
