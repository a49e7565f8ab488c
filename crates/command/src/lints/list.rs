//! Name, severity and texts of every lint of a policy document. docs/lints.md is made from them.

use crate::lints::diagnostics::lint::Lint;
use crate::lints::diagnostics::lint::Severity::{Error, Note, Warning};

/// What no `--allow` takes, whatever is checked.
pub const ALWAYS: [&str; 6] = ["unread-file", "not-json", "start-error", "not-yaml", "envoy-no-filter", "not-openapi"];

/// In the place of a name that no list has.
pub static UNNAMED: Lint = Lint {
    name: "unnamed",
    severity: Error,
    summary: "A finding without a name.",
    why: "This is a mistake in the command.",
    instead: "Please report it.",
};

/// In the order of the page: what the engine itself says, then lints of this command.
pub static LINTS: &[Lint] = &[
    Lint {
        name: "unread-file",
        severity: Error,
        summary: "A file cannot be read.",
        why: "The command could not check it.",
        instead: "Correct the name of the file, or give this command the permission to read it.",
    },
    Lint {
        name: "not-json",
        severity: Error,
        summary: "The document is not JSON.",
        why: "The filter does not start. The message names the usual slips: a comma too many, a comment, YAML, a byte order mark.",
        instead: "Correct the text at the place that is underlined.",
    },
    Lint {
        name: "start-error",
        severity: Error,
        summary: "The filter does not start with this document.",
        why: "The gateway refuses the configuration, or keeps the one before. Among these errors are unknown members, templates \
              such as `/orders/:id`, two routes that take the same requests, and a route of scope `project` whose sources all \
              lack a `project`.",
        instead: "Apply the fix in the message. docs/policy.md describes every member.",
    },
    Lint {
        name: "start-warning",
        severity: Warning,
        summary: "The start log has this warning.",
        why: "The filter starts, and something is probably not as you meant it.",
        instead: "Apply the fix in the message.",
    },
    Lint {
        name: "shadow-mode",
        severity: Note,
        summary: "The document, or a route, is in shadow mode.",
        why: "The filter counts what it would refuse and which keys it would rewrite, and forwards these requests with \
              their keys as they came, so that keys of different tenants are not kept apart. The note lists what acts \
              all the same.",
        instead: "Write `\"mode\": \"enforce\"` when `edge-idempotency shadow-report` shows no surprises.",
    },
    Lint {
        name: "host-spelling",
        severity: Note,
        summary: "Routes have `hosts`, so the gateway has to normalise the host.",
        why: "A request whose `Host` spells a host of the policy in another way, such as `api.example.com:8443`, is refused (400 \
              `path_ambiguous`), and clients that use a port write it.",
        instead: "Set `strip_any_host_port: true` and `strip_trailing_host_dot: true` on the connection manager; \
                  `check --envoy` looks whether they are set. KrakenD has nothing to set.",
    },
    Lint {
        name: "unseen-routes",
        severity: Note,
        summary: "The document has `gateway_routes`, and the gateway's configuration was not checked with it.",
        why: "The gateway chooses the endpoint and tells the filter its name. A name that the policy does not have, or a route that no \
              endpoint of the gateway serves, is seen only if both are read together.",
        instead: "For KrakenD run `go run ./check --policy policy.json krakend.json` in `krakend/`; for Envoy `check --envoy envoy.yaml`, which \
                  takes the policy out of the configuration.",
    },
    Lint {
        name: "lost-parameter",
        severity: Warning,
        summary: "The backend does not get a parameter of the path.",
        why: "The path is rewritten to the target, and the target does not name the parameter. Requests with different \
              values reach the same handler, which cannot tell them apart.",
        instead: "Put the parameter into the object key of the target, or set `forward.parameters`.",
    },
    Lint {
        name: "idle-member",
        severity: Warning,
        summary: "A member has no effect.",
        why: "It works only together with another member, which is missing, so the document promises something that does \
              not happen.",
        instead: "Remove the member, or add the one that it needs.",
    },
    Lint {
        name: "unbound-webhook",
        severity: Warning,
        summary: "A route takes webhooks, and no webhook is bound.",
        why: "Every delivery gets 404.",
        instead: "List bindings in `webhooks.static`, or name the registry in `webhooks.unkey`.",
    },
    Lint {
        name: "contested-header",
        severity: Warning,
        summary: "An identity source reads a header that a signed caller sends.",
        why: "If the filter that owns the header removes it from signed requests, their signature does not fit. If it \
              lets the header of every client pass, a client can choose its own identity.",
        instead: "Let the owner of the header keep it in signed requests only, or choose other headers in `identity.forward`.",
    },
    Lint {
        name: "missing-variable",
        severity: Note,
        summary: "A secret's variable is not set where the command runs.",
        why: "The command cannot look at the secret. The filter does not start where the variable is missing.",
        instead: "Run the command with the gateway's environment, or ignore this note.",
    },
    Lint {
        name: "weak-secret",
        severity: Warning,
        summary: "A secret is short, or all secrets of a binding are empty.",
        why: "Whoever has seen one delivery may find a short secret by trying. If all secrets are empty, every delivery \
              gets 503.",
        instead: "Make a new secret at the provider, of 16 bytes or more.",
    },
    Lint {
        name: "secret-pasted",
        severity: Warning,
        summary: "Something stands around a secret: a space, a line break, a byte order mark, quotes, or `NAME=`.",
        why: "A secret is taken as it is, so no signature fits. `echo` writes a line break that nobody sees: \
              `echo secret | kubectl create secret …` stores it.",
        instead: "Write the secret alone, for example with `printf %s`.",
    },
    Lint {
        name: "secret-kind",
        severity: Warning,
        summary: "A secret does not have the form of the provider's, or is a key of another kind.",
        why: "With `v1,whsec_…` in place of `whsec_…` no signature fits, so every delivery gets 401. An API key such as `sk_live_…` does \
              not sign deliveries either, and it is in a place where it should not be.",
        instead: "Take the signing secret of the webhook. Replace an API key at the provider.",
    },
    Lint {
        name: "inline-secret",
        severity: Warning,
        summary: "A secret is in the document itself.",
        why: "Whoever reads the file, the repository or the gateway's config dump has the secret.",
        instead: "Write `{\"env\": \"NAME\"}`, or let OpenBao give the secrets. For tests and trials allow this lint.",
    },
    Lint {
        name: "unmatched-service",
        severity: Error,
        summary: "Requests that no route declares reach services of Restate that the policy does not name.",
        why: "Restate's ingress calls every registered service by its path. The filter closes `/restate`, `/dev.restate.`, and every \
              undeclared path of the services that the policy names (targets, `retention.services`, the guard). It cannot know the others, \
              and with `unmatched` other than `REJECT` their paths pass: a client calls them without a key.",
        instead: "Write `\"unmatched\": \"REJECT\"`. If the gateway leads such paths elsewhere, say so: name that backend in `backends`, and \
                  make it the default.",
    },
    Lint {
        name: "unmatched-write",
        severity: Warning,
        summary: "`unmatched` lets writes through that no route declares.",
        why: "Nothing deduplicates them, so a client that tries again runs the work twice. A new endpoint of the API has no \
              policy until somebody thinks of it.",
        instead: "Declare every path that writes and write `\"unmatched\": \"REJECT\"`. During a rollout allow this lint.",
    },
    Lint {
        name: "unkeyed-reverse",
        severity: Warning,
        summary: "An operation needs a key, and the operation that reverses it needs none.",
        why: "A refund, a cancellation or a deletion that is sent again can run twice, although the first operation is \
              protected.",
        instead: "Give the reverse operation the policy `REQUIRED_A` as well. If its handler notices by itself that the \
                  work is done, allow this lint.",
    },
    Lint {
        name: "rewrite-without-target",
        severity: Warning,
        summary: "`rewrite_path` is set, and a route with keys has no target.",
        why: "The route's path goes to the backend as the client wrote it, where it may not exist.",
        instead: "Write the route's `target`, or remove `rewrite_path`.",
    },
    Lint {
        name: "workflow-run-key",
        severity: Warning,
        summary: "A route with keys has the target `Service/{key}/run`.",
        why: "On a workflow's `run` Restate answers 400 to every request with a key, because the workflow key makes it run once.",
        instead: "Write `HANDLER_INTERNAL_C` for a workflow. If the service is a virtual object, allow this lint.",
    },
    Lint {
        name: "object-without-tenant",
        severity: Warning,
        summary: "An object key does not hold `{tenant}`.",
        why: "Two tenants that use the same name share one object, and one of them reads and changes what the other has stored. \
              The namespace of the idempotency key does not keep objects apart.",
        instead: "Write `{tenant}:` in front of the object key, and `{project}:` if projects are kept apart.",
    },
    Lint {
        name: "escaped-slash",
        severity: Warning,
        summary: "A route takes escaped slashes in the values of its parameters.",
        why: "Backends that decode a path before they choose a route (FastAPI and others on uvicorn, WSGI servers, nginx) read another \
              path than the filter: its last part can be one that no route of the policy has, and Spring answers 400. The filter \
              does not start where the decoded path could be another route's.",
        instead: "Send the value in the query or the body, or encode it (base64url). If the backend reads escaped slashes as the filter \
                  does, allow this lint.",
    },
    Lint {
        name: "crossing-templates",
        severity: Note,
        summary: "Two templates fit the same path, and neither is more specific.",
        why: "The filter has a rule for it: from left to right a literal takes precedence over `{name}`. Other routers \
              have other rules, and a reader may expect the other route. The command reports at most 100 pairs.",
        instead: "Change nothing if the named route is the one that you mean. Otherwise choose another path for one of \
                  the two.",
    },
    Lint {
        name: "short-webhook-retention",
        severity: Warning,
        summary: "A provider tries again for longer than results are kept.",
        why: "A delivery that succeeded, and whose answer was lost, runs again when the provider tries after the result is gone.",
        instead: "Declare a class in `retention` that is at least as long as the provider tries, and set it in the backend.",
    },
    Lint {
        name: "short-body-limit",
        severity: Warning,
        summary: "A provider sends longer bodies than the route reads.",
        why: "A delivery that is longer than `max_body_bytes` (1 MiB by default) is answered 413 and does not run. The provider tries in vain, \
              or gives up, and may disable the webhook. docs/providers.md says which providers document a size above 1 MiB.",
        instead: "Write the provider's size as the route's `max_body_bytes`, and 65536 more as the gateway's buffer. A route for this provider \
                  alone (`\"webhook\": {\"provider\": …}`) keeps the limit of the others small. If this webhook sends no such events, allow this lint.",
    },
    Lint {
        name: "short-guard-retention",
        severity: Warning,
        summary: "The guard forgets requests before the backend forgets results.",
        why: "In between, another request with a used key gets the result of the first one, and no collision is noticed. \
              The filter refuses this where the document declares both times; the lint compares with Restate's default \
              of one day.",
        instead: "Set `backend.guard.retention` to the retention of the target's service plus 2h, or more.",
    },
    Lint {
        name: "long-key-age",
        severity: Warning,
        summary: "`max_age` accepts keys for longer than results are kept.",
        why: "A retry with a key whose result is gone runs again. The filter refuses this where the document declares the \
              retention; the lint compares with Restate's default of one day.",
        instead: "Shorten `max_age`, or declare a longer retention and set it in the backend.",
    },
    Lint {
        name: "shared-identifier",
        severity: Warning,
        summary: "Two webhooks of one project and provider share their identifiers.",
        why: "Keys are made of the project and the identifier. A delivery to one webhook with an identifier that the other has \
              seen gets that one's result and does not run. GitHub sends one event with one identifier to every hook.",
        instead: "Write `\"key_scope\": \"webhook\"` on both bindings, or `\"project\"` if this is what you want.",
    },
    Lint {
        name: "unsigned-identifier",
        severity: Warning,
        summary: "The signature covers the body, but not the delivery's identifier.",
        why: "Whoever has seen a delivery can send it again under another identifier, and it runs again.",
        instead: "Write `\"bind_body\": true`: then the body is a part of the key. `false` accepts the risk.",
    },
    Lint {
        name: "shared-subject",
        severity: Warning,
        summary: "Callers of an identity source are all one subject.",
        why: "A constant subject, or the same one in two sources, keeps callers of one tenant and project no longer apart: who sends a key \
              that another of them has used gets that one's answer.",
        instead: "Read the subject from the request (`field`), or give each source a subject of its own. Allow this lint if these callers \
                  are one service.",
    },
    Lint {
        name: "shared-keys",
        severity: Warning,
        summary: "All callers of a tenant share the keys of a route.",
        why: "With `\"subject\": \"none\"` who sends a key that another caller has used gets that caller's answer, and can ask for it by \
              the key.",
        instead: "Leave `subject` out, unless every caller may see the answers of every other caller; then allow this lint.",
    },
];
