//! Name, severity and texts of every lint of a policy document. docs/lints.md is made from them.

use crate::lints::diagnostics::lint::lints;

lints! {
    /// In the order of the page: what the engine itself says, then lints of this command.
    pub LINTS;

    UNREAD_FILE {
        name: "unread-file",
        severity: Error,
        summary: "A file cannot be read.",
        why: "The command could not check it.",
        instead: "Correct the name of the file, or give this command the permission to read it.",
    }

    NOT_JSON {
        name: "not-json",
        severity: Error,
        summary: "The document is not JSON.",
        why: "The filter does not start. The message names the usual slips, such as a comma too many or a comment.",
        instead: "Correct the text at the place that is underlined.",
    }

    START_ERROR {
        name: "start-error",
        severity: Error,
        summary: "The filter does not start with this document.",
        why: "The gateway refuses the configuration, or keeps the one before: an unknown member, `/orders/:id`, two routes for the \
              same requests.",
        instead: "Apply the fix in the message. docs/policy.md describes every member.",
    }

    START_WARNING {
        name: "start-warning",
        severity: Warning,
        summary: "The start log has this warning.",
        why: "It starts, and something is probably not as you meant it, such as a webhook route to which nothing is bound.",
        instead: "Apply the fix in the message.",
    }

    SHADOW_MODE {
        name: "shadow-mode",
        severity: Note,
        summary: "The document, or a route, is in shadow mode.",
        why: "Keys of different tenants are not kept apart. The note lists what acts all the same.",
        instead: "Write `\"mode\": \"enforce\"` when `edge-idempotency shadow-report` shows no surprises.",
    }

    NOT_SEEN {
        name: "not-seen",
        severity: Note,
        summary: "Something that belongs to the file was not seen, so nothing is known about it.",
        why: "The command does not read what stands in another file or comes from a server. With `--live` it asks only what an \
              option names.",
        instead: "Do what the message says: check the gateway's file (`check --envoy envoy.yaml`; for KrakenD `go run ./check --policy \
              policy.json --module edge_idempotency.wasm krakend.json` in `krakend/`), give the option, or put an OpenAPI description \
              into one file, for example with `redocly bundle`.",
    }

    LOST_PARAMETER {
        name: "lost-parameter",
        severity: Warning,
        summary: "The backend does not get a parameter of the path.",
        why: "The target does not name it, so the handler cannot tell requests with different values apart.",
        instead: "Put the parameter into the object key of the target, or set `parameter_headers`.",
    }

    CONTESTED_HEADER {
        name: "contested-header",
        severity: Warning,
        summary: "An identity source reads a header that a signed caller sends.",
        why: "If its owner removes it from signed requests, their signature does not fit; if it lets it pass, a client chooses its \
              identity.",
        instead: "Let the owner of the header keep it in signed requests only, or choose other headers in `identity.forward`.",
    }

    MISSING_VARIABLE {
        name: "missing-variable",
        severity: Note,
        summary: "A secret's variable is not set where the command runs.",
        why: "The command cannot look at it. The filter does not start where the variable is missing.",
        instead: "Run the command with the gateway's environment, or ignore this note.",
    }

    WEAK_SECRET {
        name: "weak-secret",
        severity: Warning,
        summary: "A secret is short, or all secrets of a binding are empty.",
        why: "A short secret can be found by trying. With empty ones every delivery gets 503.",
        instead: "Make a new secret at the provider, of 16 bytes or more.",
    }

    WRONG_SECRET {
        name: "wrong-secret",
        severity: Warning,
        summary: "A secret has another form than the one that signs.",
        why: "A secret is taken as it is: with a line break (`echo`), quotes or `NAME=` around it, or with an API key in its place, \
              no signature fits.",
        instead: "Write the signing secret of the webhook alone, for example with `printf %s`. Replace an API key at the provider: it is \
              in a place where it should not be.",
    }

    INLINE_SECRET {
        name: "inline-secret",
        severity: Warning,
        summary: "A secret is in the document, or in the gateway's configuration.",
        why: "Whoever reads the file or the gateway's config dump has it.",
        instead: "Write `{\"env\": \"NAME\"}` and give the variable to the gateway (`host_env_keys`), or let OpenBao give the secrets. For \
              tests and trials allow this lint.",
    }

    UNMATCHED_SERVICE {
        name: "unmatched-service",
        severity: Error,
        summary: "Requests that no route declares reach services of Restate that the policy does not name.",
        why: "Restate calls every registered service by its path. The filter closes those that the policy names; with `unmatched` \
              other than `REJECT` the others are open, without a key.",
        instead: "Write `\"unmatched\": \"REJECT\"`. If the gateway leads such paths elsewhere, say so: name that backend in `backends`, and \
                  make it the default.",
    }

    UNMATCHED_WRITE {
        name: "unmatched-write",
        severity: Warning,
        summary: "`unmatched` lets writes through that no route declares.",
        why: "Nothing deduplicates them, and a new endpoint has no policy until somebody thinks of it.",
        instead: "Declare every path that writes and write `\"unmatched\": \"REJECT\"`. During a rollout allow this lint.",
    }

    UNKEYED_REVERSE {
        name: "unkeyed-reverse",
        severity: Warning,
        summary: "An operation needs a key, and the operation that reverses it needs none.",
        why: "A refund that is sent again can run twice, although the charge is protected.",
        instead: "Give the reverse operation the policy `REQUIRED_A` as well. If its handler notices by itself that the \
                  work is done, allow this lint.",
    }

    OBJECT_WITHOUT_TENANT {
        name: "object-without-tenant",
        severity: Warning,
        summary: "An object key does not hold `{tenant}`.",
        why: "Tenants that use the same name share one object. The namespace of keys does not keep objects apart.",
        instead: "Write `{tenant}:` in front of the object key, and `{project}:` if projects are kept apart.",
    }

    ESCAPED_SLASH {
        name: "escaped-slash",
        severity: Warning,
        summary: "A route takes escaped slashes in the values of its parameters.",
        why: "FastAPI, WSGI servers and nginx decode a path before they route it, and so read another path than the filter.",
        instead: "Send the value in the query or the body, or encode it (base64url). If the backend reads escaped slashes as the filter \
                  does, allow this lint.",
    }

    SHORT_RETENTION {
        name: "short-retention",
        severity: Warning,
        summary: "Results or claims are forgotten while a request can still come.",
        why: "What comes after its result is gone runs again, and a key that the guard has forgotten is not compared. Restate's \
              default is one day.",
        instead: "Declare a class in `retention` that is long enough, and set it in the backend. Shorten a `max_age`. Set \
              `backend.guard.retention` to the retention of the target's service plus 2h, or more.",
    }

    SHORT_BODY_LIMIT {
        name: "short-body-limit",
        severity: Warning,
        summary: "A provider sends longer bodies than the route reads.",
        why: "A longer delivery is answered 413 and does not run, and the provider may disable the webhook. docs/webhooks.md names \
              such providers.",
        instead: "Write the provider's size as the route's `max_body_bytes`, and 65536 more as the gateway's buffer. A route for this provider \
                  alone (`\"webhook\": {\"provider\": …}`) keeps the limit of the others small. If this webhook sends no such events, allow this lint.",
    }

    SHARED_IDENTIFIER {
        name: "shared-identifier",
        severity: Warning,
        summary: "Two webhooks of one project and provider share their identifiers.",
        why: "A delivery with an identifier that the other webhook has seen gets that one's result and does not run. GitHub's hooks \
              are so.",
        instead: "Write `\"key_scope\": \"webhook\"` on both bindings, or `\"project\"` if this is what you want.",
    }

    UNSIGNED_IDENTIFIER {
        name: "unsigned-identifier",
        severity: Warning,
        summary: "The signature covers the body, but not the delivery's identifier.",
        why: "Whoever has seen a delivery can send it again under another identifier, and it runs again.",
        instead: "Write `\"bind_body\": true`: then the body is a part of the key. `false` accepts the risk.",
    }

    SHARED_KEYS {
        name: "shared-keys",
        severity: Warning,
        summary: "Callers of one tenant share keys.",
        why: "Who sends a key that another of them has used gets that one's answer.",
        instead: "Read the subject from the request (`field`), give each source a subject of its own, and leave the member `subject` of \
              the route out. Allow this lint if these callers are one service, or may see each other's answers.",
    }

    PROFILE_DIFFERS {
        name: "profile-differs",
        severity: Warning,
        summary: "A route or a retention is not as the profile (`--profile`) says.",
        why: "What the policy says counts, and clients of the protocol expect otherwise.",
        instead: "Write what the message asks for, or allow this lint if you depart from the protocol on purpose.",
    }
}
