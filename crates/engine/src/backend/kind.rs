//! The kinds of backends: a table of what each can do, and of what the filter does for it (docs/backends.md). Outside of this room nothing
//! asks which kind a backend is.

use super::restate;

/// The kind of backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendKind {
    /// Restate's HTTP ingress.
    #[default]
    Restate,
    /// Another service that deduplicates by `Idempotency-Key`.
    Generic,
}

/// A row of the table.
#[derive(Debug)]
pub struct BackendAbilities {
    /// Results are found again: by key (recovery), by operation id, and before they are there (`in_flight`).
    pub finds_results: bool,
    /// It takes requests whose answer does not wait for the work (`one_way`).
    pub takes_one_way: bool,
    /// Every value that is encoded stays one segment of a path, so that a target can have values of a body.
    pub takes_any_value: bool,
    /// A service is called by its name in the path, also one that no route declares.
    pub serves_by_name: bool,
    /// Letters of another case are another path.
    pub tells_case_apart: bool,
    /// The slashes of a path may decide about its resource: a slash at the end, and empty segments.
    pub keeps_slashes: bool,
    /// A raw key has an effect. In shadow mode, too, it does not get those that enforcing removes.
    pub acts_on_raw_keys: bool,
    /// Parameters of the query steer it.
    pub has_steering_query: bool,
    /// It has gRPC services of its own, to which requests come by their content type alone.
    pub has_own_rpc: bool,
    /// It gets credentials of callers. Restate stores requests in its journal.
    pub gets_credentials: bool,
    /// Errors in JSON are cleaned, if the policy does not say. A generic backend's errors are its API's own.
    pub cleans_errors: bool,
    /// The beginnings of its own paths, which are closed to clients.
    pub own_paths: &'static [&'static str],
    /// The paths in front of a target, and of one that is called one way.
    pub target_prefixes: [&'static str; 2],
    /// The default of `operation_id`.
    pub operation_id: Option<&'static str>,
    /// The default of `hide_headers`.
    pub hidden: &'static [&'static str],
    /// The default of `replay_headers`.
    pub replay_headers: &'static [&'static str],
    /// What people call it.
    #[cfg(feature = "describe")]
    pub title: &'static str,
    /// The filter's own calls go to it: the guard is one of its services. Those of another backend go to Restate beside it.
    #[cfg(feature = "describe")]
    pub is_called: bool,
    /// For how long it keeps results if nobody says it, in seconds.
    #[cfg(feature = "describe")]
    pub retention: Option<u64>,
    /// Answers say until when their results are kept.
    #[cfg(feature = "describe")]
    pub tells_expiry: bool,
}

const RESTATE: BackendAbilities = BackendAbilities {
    finds_results: true,
    takes_one_way: true,
    takes_any_value: true,
    serves_by_name: true,
    tells_case_apart: true,
    keeps_slashes: false,
    acts_on_raw_keys: true,
    has_steering_query: true,
    has_own_rpc: true,
    gets_credentials: false,
    cleans_errors: true,
    own_paths: &[restate::PATHS, restate::RPC_PATHS],
    target_prefixes: [restate::CALL, restate::SEND],
    operation_id: Some(restate::INVOCATION),
    hidden: &restate::HIDDEN,
    replay_headers: &[],
    #[cfg(feature = "describe")]
    title: "Restate",
    #[cfg(feature = "describe")]
    is_called: true,
    #[cfg(feature = "describe")]
    retention: Some(restate::RETENTION_S),
    #[cfg(feature = "describe")]
    tells_expiry: true,
};

const GENERIC: BackendAbilities = BackendAbilities {
    finds_results: false,
    takes_one_way: false,
    takes_any_value: false,
    serves_by_name: false,
    tells_case_apart: false,
    keeps_slashes: true,
    acts_on_raw_keys: false,
    has_steering_query: false,
    has_own_rpc: false,
    gets_credentials: true,
    cleans_errors: false,
    own_paths: &[],
    target_prefixes: ["", ""],
    operation_id: None,
    hidden: &[],
    replay_headers: &["idempotent-replayed"],
    #[cfg(feature = "describe")]
    title: "an API of your own",
    #[cfg(feature = "describe")]
    is_called: false,
    #[cfg(feature = "describe")]
    retention: None,
    #[cfg(feature = "describe")]
    tells_expiry: false,
};

impl BackendKind {
    /// What a backend of this kind can do.
    pub(crate) const fn abilities(self) -> &'static BackendAbilities {
        match self {
            Self::Restate => &RESTATE,
            Self::Generic => &GENERIC,
        }
    }

    /// The path in front of a target.
    pub(crate) const fn target_prefix(self, one_way: bool) -> &'static str {
        let [call, send] = self.abilities().target_prefixes;
        if one_way { send } else { call }
    }
}
