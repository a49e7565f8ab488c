//! The statuses of gRPC and Connect that problems have. Numbers and names are those of
//! <https://grpc.io/docs/guides/status-codes/>, the HTTP statuses those of <https://connectrpc.com/docs/protocol/#error-codes>.

/// Makes [`RpcStatus`] of its rows: the variant, its number in gRPC, its name in Connect and Connect's HTTP status.
macro_rules! rpc_statuses {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $http:literal;)*) => {
        /// The status of an RPC that was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum RpcStatus {
            $($(#[$doc])* $variant,)*
        }

        impl RpcStatus {
            /// The number in `grpc-status`, the name in the JSON of Connect, and the HTTP status of a unary answer of Connect.
            const fn facts(self) -> (u8, &'static str, u16) {
                match self {
                    $(Self::$variant => ($number, $name, $http),)*
                }
            }
        }
    };
}

rpc_statuses! {
    /// The backend's error has no meaning that is known.
    Unknown = 2, "unknown", 500;
    /// The request is at fault, whatever came before it.
    InvalidArgument = 3, "invalid_argument", 400;
    /// No answer has come in time.
    DeadlineExceeded = 4, "deadline_exceeded", 504;
    /// What is asked for does not exist.
    NotFound = 5, "not_found", 404;
    /// The caller is known and may not do this.
    PermissionDenied = 7, "permission_denied", 403;
    /// Something is larger than a limit.
    ResourceExhausted = 8, "resource_exhausted", 429;
    /// The request does not fit what came before it.
    FailedPrecondition = 9, "failed_precondition", 400;
    /// Another request is in the way.
    Aborted = 10, "aborted", 409;
    /// There is no such method.
    Unimplemented = 12, "unimplemented", 501;
    /// The gateway is at fault.
    Internal = 13, "internal", 500;
    /// The same request may succeed later. Clients are often configured to repeat it by themselves.
    Unavailable = 14, "unavailable", 503;
    /// The caller is not known.
    Unauthenticated = 16, "unauthenticated", 401;
}

impl RpcStatus {
    /// The number in `grpc-status`.
    pub const fn number(self) -> u8 {
        self.facts().0
    }

    /// The name in the JSON of Connect. gRPC writes it in capitals.
    pub const fn name(self) -> &'static str {
        self.facts().1
    }

    /// The HTTP status of a unary answer of Connect.
    pub const fn http(self) -> u16 {
        self.facts().2
    }
}
