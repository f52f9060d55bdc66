"""Attribute names, each defined once. The only module that touches the conventions' unstable (`_incubating`) package.

The GenAI names are marked as deprecated there (they moved to a repository of their own); backends read these.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes import error_attributes, http_attributes, server_attributes, url_attributes

#: The conventions that these names were read from.
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.1"

ERROR_TYPE: Final = error_attributes.ERROR_TYPE
HTTP_REQUEST_METHOD: Final = http_attributes.HTTP_REQUEST_METHOD
HTTP_RESPONSE_STATUS_CODE: Final = http_attributes.HTTP_RESPONSE_STATUS_CODE
HTTP_ROUTE: Final = http_attributes.HTTP_ROUTE
SERVER_ADDRESS: Final = server_attributes.SERVER_ADDRESS
SERVER_PORT: Final = server_attributes.SERVER_PORT
URL_PATH: Final = url_attributes.URL_PATH
URL_SCHEME: Final = url_attributes.URL_SCHEME

CONVERSATION_ID: Final = gen_ai.GEN_AI_CONVERSATION_ID
EVALUATION_EXPLANATION: Final = gen_ai.GEN_AI_EVALUATION_EXPLANATION
EVALUATION_NAME: Final = gen_ai.GEN_AI_EVALUATION_NAME
EVALUATION_SCORE_LABEL: Final = gen_ai.GEN_AI_EVALUATION_SCORE_LABEL
EVALUATION_SCORE_VALUE: Final = gen_ai.GEN_AI_EVALUATION_SCORE_VALUE
INPUT_MESSAGES: Final = gen_ai.GEN_AI_INPUT_MESSAGES
OPERATION_NAME: Final = gen_ai.GEN_AI_OPERATION_NAME
OUTPUT_MESSAGES: Final = gen_ai.GEN_AI_OUTPUT_MESSAGES
PROVIDER_NAME: Final = gen_ai.GEN_AI_PROVIDER_NAME
REQUEST_CHOICE_COUNT: Final = gen_ai.GEN_AI_REQUEST_CHOICE_COUNT
REQUEST_MAX_TOKENS: Final = gen_ai.GEN_AI_REQUEST_MAX_TOKENS
REQUEST_MODEL: Final = gen_ai.GEN_AI_REQUEST_MODEL
REQUEST_SEED: Final = gen_ai.GEN_AI_REQUEST_SEED
REQUEST_TEMPERATURE: Final = gen_ai.GEN_AI_REQUEST_TEMPERATURE
REQUEST_TOP_P: Final = gen_ai.GEN_AI_REQUEST_TOP_P
RESPONSE_FINISH_REASONS: Final = gen_ai.GEN_AI_RESPONSE_FINISH_REASONS
RESPONSE_ID: Final = gen_ai.GEN_AI_RESPONSE_ID
RESPONSE_MODEL: Final = gen_ai.GEN_AI_RESPONSE_MODEL
SYSTEM_INSTRUCTIONS: Final = gen_ai.GEN_AI_SYSTEM_INSTRUCTIONS
USAGE_INPUT_TOKENS: Final = gen_ai.GEN_AI_USAGE_INPUT_TOKENS
USAGE_OUTPUT_TOKENS: Final = gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS

# In the conventions 1.41, not yet in every package of theirs that we run with.
EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

# OpenInference, which Phoenix reads.
INPUT_VALUE: Final = "input.value"
OUTPUT_VALUE: Final = "output.value"

# Ours. Never a bare "refusal": Phoenix nests dotted keys.
REFUSAL_ACTION: Final = "refusal.action"
REFUSAL_BLOCKED_BY: Final = "refusal.blocked_by"
REFUSAL_CLASSIFIER_NAME: Final = "refusal.classifier.name"
REFUSAL_CLASSIFIER_VERSION: Final = "refusal.classifier.version"
REFUSAL_EVIDENCE: Final = "refusal.evidence"
REFUSAL_FEATURES: Final = "refusal.features"
REFUSAL_ID: Final = "refusal.id"
REFUSAL_INSPECTED: Final = "refusal.inspected"
REFUSAL_IS_REFUSAL: Final = "refusal.is_refusal"
REFUSAL_LANGUAGE: Final = "refusal.language"
REFUSAL_RATIONALE: Final = "refusal.rationale"
REFUSAL_REVIEW_JUDGE: Final = "refusal.review.judge"
REFUSAL_REVIEW_OUTCOME: Final = "refusal.review.outcome"
REFUSAL_REVIEW_RULES_SCORE: Final = "refusal.review.rules_score"
REFUSAL_REVIEW_RULES_VERDICT: Final = "refusal.review.rules_verdict"
REFUSAL_RULES: Final = "refusal.rules"
REFUSAL_SCORE: Final = "refusal.score"
REFUSAL_SIGNALS: Final = "refusal.signals"
REFUSAL_STATUS: Final = "refusal.status"
REFUSAL_STRATEGY: Final = "refusal.strategy"
REFUSAL_TAG: Final = "refusal.tag"
REFUSAL_VERDICT: Final = "refusal.verdict"
STREAM_DONE_MARKER: Final = "stream.done_marker"
