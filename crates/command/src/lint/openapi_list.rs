//! Name, severity and texts of every lint of an OpenAPI description beside a policy. docs/lints.md is made from them.

use crate::lints::diagnostics::lint::Lint;
use crate::lints::diagnostics::lint::Severity::{Error, Note, Warning};

/// In the order of the page.
pub(super) static LINTS: &[Lint] = &[
    Lint {
        name: "not-openapi",
        severity: Error,
        summary: "The file is no OpenAPI description of version 3.0, 3.1 or 3.2.",
        why: "The command cannot compare it with the policy.",
        instead: "Correct the text at the place that is underlined, or convert the description to one of these versions.",
    },
    Lint {
        name: "openapi-no-route",
        severity: Error,
        summary: "An operation of the description has no route in the policy.",
        why: "The gateway answers its requests 404 `not_found`, 405 `method_not_allowed` or 400 `path_ambiguous`, whatever the \
              description promises.",
        instead: "Declare a route with the operation's path and method, or remove the operation from the description. The path of a \
                  server in `servers` is the beginning of the operation's path.",
    },
    Lint {
        name: "openapi-open-write",
        severity: Warning,
        summary: "An operation that writes has no route, and `unmatched` forwards its requests.",
        why: "No key reaches the backend, so a retry runs the work twice.",
        instead: "Declare a route with the operation's path and method.",
    },
    Lint {
        name: "openapi-no-operation",
        severity: Warning,
        summary: "A route of the policy has no operation in the description.",
        why: "Callers do not learn that the operation exists, or the two write its path in different ways. Routes that take webhooks \
              are not meant for callers, and are not reported.",
        instead: "Describe the operation, or allow this lint if the description leaves out operations on purpose.",
    },
    Lint {
        name: "openapi-key-missing",
        severity: Error,
        summary: "An operation needs a key, and the description has no parameter for it.",
        why: "Clients that are made of the description send no key, and every request is answered 400 `idempotency_key_required`.",
        instead: "Add the header parameter `Idempotency-Key`, required; `openapi overlay` writes it.",
    },
    Lint {
        name: "openapi-key-undescribed",
        severity: Warning,
        summary: "An operation takes a key, and the description has no parameter for it.",
        why: "Clients that are made of the description cannot send a key, so their retries run the work twice.",
        instead: "Add the header parameter `Idempotency-Key`, not required; `openapi overlay` writes it.",
    },
    Lint {
        name: "openapi-key-required",
        severity: Error,
        summary: "The description and the policy differ in whether the key is required.",
        why: "Clients that leave a key out which they need get 400 `idempotency_key_required`; a key that is required for nothing breaks \
              clients that have none.",
        instead: "Write `required: true` on the parameter of a `REQUIRED_A` route, and `required: false` on that of an `ACCEPTED` one.",
    },
    Lint {
        name: "openapi-key-not-taken",
        severity: Error,
        summary: "The description has a parameter for a key that the route does not take.",
        why: "The filter refuses the key (400 `idempotency_key_prohibited`) or removes it, and clients believe that a retry is safe.",
        instead: "Remove the parameter from the operation, or change the route's policy to `ACCEPTED` or `REQUIRED_A`.",
    },
    Lint {
        name: "openapi-key-schema",
        severity: Warning,
        summary: "The schema of the key takes texts that the filter refuses, or none that it takes.",
        why: "A client that follows the description gets 400 `idempotency_key_invalid`. The command tries keys of usual forms and the \
              examples of the description. A schema that is narrower than the policy is fine.",
        instead: "Write the schema in the message; `openapi overlay` writes it, too.",
    },
    Lint {
        name: "openapi-refusal-missing",
        severity: Warning,
        summary: "The description lacks a response that the filter itself gives.",
        why: "Clients that are made of the description cannot read the refusal: it is a problem document (`application/problem+json`).",
        instead: "Add the responses that the message names; `openapi overlay` writes them.",
    },
    Lint {
        name: "openapi-header-missing",
        severity: Note,
        summary: "Responses of an operation lack the headers of replays and retries.",
        why: "Clients that are made of the description cannot see whether an answer is a replay, and when to send a request again.",
        instead: "Add the headers to every response; `openapi overlay` writes them.",
    },
    Lint {
        name: "openapi-policy-differs",
        severity: Error,
        summary: "`x-idempotency-policy` of an operation is not the policy of its route.",
        why: "Tools and people that read the description do something else than the gateway.",
        instead: "Write the name of the route's policy.",
    },
    Lint {
        name: "openapi-webhook",
        severity: Warning,
        summary: "A route for webhooks is described as an operation for callers.",
        why: "The filter refuses every request without a provider's signature, so callers cannot use the operation.",
        instead: "Remove the operation from the description for callers, or write `x-idempotency-policy` with the route's policy, if \
                  the description is for the senders of webhooks, too.",
    },
    Lint {
        name: "openapi-unread",
        severity: Note,
        summary: "A part of the description was not read: what a reference leads to, members beside a reference, or a server.",
        why: "The command reads one file, and compares only what it reads.",
        instead: "Put the description into one file first, for example with `redocly bundle`, and give every variable of a server a default.",
    },
];
