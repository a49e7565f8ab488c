//! The adapter between a proxy-wasm host and the core: it fetches what an event needs, and carries out effects.

mod start {
    #![allow(unsafe_code)]

    use proxy_wasm::types::LogLevel;

    proxy_wasm::main! {{
        // First of all: it also installs the hook through which a panic's message reaches the log.
        proxy_wasm::set_log_level(LogLevel::Info);
        proxy_wasm::set_root_context(|_| Box::new(super::root::Root::default()));
    }}
}

mod abi;
mod attributes;
mod root;
mod stream;
