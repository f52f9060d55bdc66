"""TLS towards upstreams: whom we trust, and who we say we are."""

from __future__ import annotations

import ssl
from pathlib import Path


class CertificateError(Exception):
    """A file of certificates or of a key can't be used; `setting` names it, `problem` says why."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting = setting
        self.problem = problem


def client_context(
    ca_file: Path | None = None, client_cert: Path | None = None, client_key: Path | None = None
) -> ssl.SSLContext:
    """Trusts `ca_file` (PEM), else what OpenSSL is set to: `SSL_CERT_FILE`, `SSL_CERT_DIR`, the system.

    Shows `client_cert` (PEM, with its chain) to an upstream that asks for a certificate; its key is in `client_key`, or
    in the same file. Raises CertificateError.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError("ca_file", f"{ca_file} can't be used: {_reason(error)}") from error
    context.set_alpn_protocols(["http/1.1"])
    if client_cert is not None:
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(client_cert, client_key, password="")
        except (OSError, ssl.SSLError) as error:
            files = f"{client_cert}" + (f" with client_key: {client_key}" if client_key else "")
            raise CertificateError(
                "client_cert", f"{files} can't be used: {_reason(error)} (it takes PEM, and a key without password)"
            ) from error
    return context


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
