//! Name, severity and texts of every lint of what a policy needs while it runs (`check --live`). docs/lints.md is made from them.

use crate::lints::diagnostics::lint::lints;

lints! {
    /// In the order of the page: what answers at all, then each service.
    pub(crate) LINTS;

    LIVE_WORKS {
        name: "live-works",
        severity: Note,
        summary: "Something that was asked works.",
        why: "The command says what it asked, so that silence is not taken for health.",
        instead: "Nothing is to be done.",
    }

    LIVE_UNREACHABLE {
        name: "live-unreachable",
        severity: Error,
        summary: "Something that the policy needs does not answer, or refuses the credentials.",
        why: "Requests that need it are answered 503, or go on unchecked, as the policy says.",
        instead: "Look at the address, the credentials and the service. It is asked from here, and not from the gateway: a network can \
                  allow one and not the other.",
    }

    LIVE_GUARD {
        name: "live-guard",
        severity: Error,
        summary: "The guard does not do what the filter expects of it.",
        why: "If its answer is no fingerprint, `enforce` answers 503. If it keeps nothing, no collision is ever found.",
        instead: "Register a guard whose handler `claim` returns its input, and call it through Restate's ingress (docs/backends.md).",
    }

    LIVE_INGESTION {
        name: "live-ingestion",
        severity: Warning,
        summary: "Restate's ingress takes calls by gRPC.",
        why: "From 1.8 on such a call names any handler, object and key. The filter lets none pass; who reaches the ingress by \
              another way can.",
        instead: "Write `disable = true` under `[ingress.ingestion-api]` in Restate's configuration.",
    }

    LIVE_MISSING_HANDLER {
        name: "live-missing-handler",
        severity: Error,
        summary: "Restate does not have a service or a handler that the policy names.",
        why: "Requests of the route are answered 404 by Restate.",
        instead: "Register the deployment, or correct the name in the policy. Names are case-sensitive.",
    }

    LIVE_RETENTION {
        name: "live-retention",
        severity: Warning,
        summary: "Restate keeps results for another time than the policy declares.",
        why: "A retry that comes after the result is gone runs the work again.",
        instead: "Run `edge-idempotency retention --apply`, or correct the policy.",
    }

    LIVE_LOOKUP {
        name: "live-lookup",
        severity: Error,
        summary: "The registry or the secret store gives the filter nothing that it can use.",
        why: "Deliveries are answered 404 or 503, with the reason in the message.",
        instead: "Look up the reason in docs/webhooks.md, which says for each what to correct.",
    }

    LIVE_KEYS {
        name: "live-keys",
        severity: Error,
        summary: "A key set has no key that verifies tokens, or has a private one.",
        why: "Without a key every token is refused. With a private key, whoever reads the set makes tokens for any tenant.",
        instead: "Name the issuer's key set. If a private key is in it, replace that key.",
    }

    LIVE_GATEWAY {
        name: "live-gateway",
        severity: Error,
        summary: "The gateway does not run the filter, is not ready, or refused its last configuration.",
        why: "What the policy says is not done, or an older policy is in use.",
        instead: "Envoy's log has the reason. `check --envoy` checks the configuration.",
    }

    LIVE_OTHER_POLICY {
        name: "live-other-policy",
        severity: Warning,
        summary: "The gateway runs another policy than this one, or has refused configurations since it started.",
        why: "Before a rollout that is right. After it the new policy was refused, or has not come.",
        instead: "Roll it out. Envoy's log has the reason of a refusal; with ECDS look at `config_fail` (docs/production.md).",
    }

    LIVE_CLUSTER {
        name: "live-cluster",
        severity: Error,
        summary: "The gateway lacks a cluster that the policy names, or no host of it is healthy.",
        why: "The filter's calls fail: lookups, recoveries and claims.",
        instead: "Define the cluster, or look at its hosts in `/clusters` of the admin interface.",
    }
}
