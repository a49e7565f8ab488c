//! Name, severity and texts of every lint of an OpenAPI description beside a policy. docs/lints.md is made from them.

use crate::lints::diagnostics::lint::lints;

lints! {
    /// In the order of the page.
    pub(crate) LINTS;

    NOT_OPENAPI {
        name: "not-openapi",
        severity: Error,
        summary: "The file is no OpenAPI description of version 3.0, 3.1 or 3.2.",
        why: "The command cannot compare it with the policy.",
        instead: "Correct the text at the place that is underlined, or convert the description to one of these versions.",
    }

    OPENAPI_NO_ROUTE {
        name: "openapi-no-route",
        severity: Error,
        summary: "An operation of the description has no route in the policy.",
        why: "The gateway answers its requests 404, 405 or 400, whatever the description promises.",
        instead: "Declare a route with the operation's path and method, or remove the operation from the description. The path of a \
                  server in `servers` is the beginning of the operation's path.",
    }

    OPENAPI_OPEN_WRITE {
        name: "openapi-open-write",
        severity: Warning,
        summary: "An operation that writes has no route, and `unmatched` forwards its requests.",
        why: "No key reaches the backend, so a retry runs the work twice.",
        instead: "Declare a route with the operation's path and method.",
    }

    OPENAPI_NO_OPERATION {
        name: "openapi-no-operation",
        severity: Warning,
        summary: "A route of the policy has no operation in the description.",
        why: "Callers do not learn of it, or the two write its path in different ways. Webhooks are not reported.",
        instead: "Describe the operation, or allow this lint if the description leaves out operations on purpose.",
    }

    OPENAPI_KEY {
        name: "openapi-key",
        severity: Error,
        summary: "The description and the policy differ in whether an operation takes or needs a key.",
        why: "Clients that are made of it leave out a key that they need, or send one that is refused or removed.",
        instead: "Write the header parameter `Idempotency-Key` with `required: true` for a `REQUIRED_A` route and `required: false` for an \
              `ACCEPTED` one, and none for others; `overlay` writes it.",
    }

    OPENAPI_INCOMPLETE {
        name: "openapi-incomplete",
        severity: Warning,
        summary: "The description lacks what the filter gives callers: a key that an operation takes, a refusal, or headers of answers.",
        why: "Clients that are made of it cannot send the key, read a refusal, or see whether an answer is a replay.",
        instead: "Add what the message names; `overlay` writes it.",
    }

    OPENAPI_KEY_SCHEMA {
        name: "openapi-key-schema",
        severity: Warning,
        summary: "The schema of the key takes texts that the filter refuses, or none that it takes.",
        why: "A client that follows it gets 400. A schema that is narrower than the policy is fine.",
        instead: "Write the schema in the message; `overlay` writes it, too.",
    }

    OPENAPI_POLICY_DIFFERS {
        name: "openapi-policy-differs",
        severity: Error,
        summary: "`x-idempotency-policy` of an operation is not the policy of its route.",
        why: "Tools and people that read the description do something else than the gateway.",
        instead: "Write the name of the route's policy.",
    }

    OPENAPI_WEBHOOK {
        name: "openapi-webhook",
        severity: Warning,
        summary: "A route for webhooks is described as an operation for callers.",
        why: "Without a provider's signature the filter refuses every request.",
        instead: "Remove the operation from the description for callers, or write `x-idempotency-policy` with the route's policy, if \
                  the description is for the senders of webhooks, too.",
    }
}
