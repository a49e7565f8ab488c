//! Envoy's functions for a configuration, as safe ones.

use super::{EMPTY, Optional, Refused, argument, copied, done, items, lent, line};
use crate::abi::{self, Buffer, ConfigPtr, HeaderLine, SchedulerPtr};

/// The configuration of a filter in Envoy.
#[derive(Clone, Copy)]
pub(crate) struct ConfigHandle(ConfigPtr);

// SAFETY: Envoy's functions for metrics and secrets of a configuration may be called on every thread of Envoy. The others are
// called by hooks of the main thread alone, as their descriptions here say.
unsafe impl Send for ConfigHandle {}
// SAFETY: as above.
unsafe impl Sync for ConfigHandle {}

/// The kind of an instrument, and its number in one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InstrumentId {
    Counter(usize),
    Histogram(usize),
}

impl ConfigHandle {
    /// # Safety
    /// `config` has to be the pointer that a hook of a configuration was called with. The handle must not be used after Envoy has
    /// destroyed the configuration, which it does after the last of its streams.
    pub(crate) const unsafe fn new(config: ConfigPtr) -> Self {
        Self(config)
    }

    /// Defines a counter. Only while the configuration is made.
    pub(crate) fn define_counter(self, name: &str, labels: &[&str]) -> Result<InstrumentId, Refused> {
        let (mut labels, mut id) = (arguments(labels.iter().map(|label| label.as_bytes())), 0);
        // SAFETY: the configuration lives, name and labels are valid, and the id can be written, during the call.
        let result = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_config_define_counter(
                self.0,
                argument(name.as_bytes()),
                labels.as_mut_ptr(),
                labels.len(),
                &raw mut id,
            )
        };
        done(result == abi::METRIC_SUCCESS).map(|()| InstrumentId::Counter(id))
    }

    /// Defines a histogram. Only while the configuration is made.
    pub(crate) fn define_histogram(self, name: &str, labels: &[&str]) -> Result<InstrumentId, Refused> {
        let (mut labels, mut id) = (arguments(labels.iter().map(|label| label.as_bytes())), 0);
        // SAFETY: as for a counter.
        let result = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_config_define_histogram(
                self.0,
                argument(name.as_bytes()),
                labels.as_mut_ptr(),
                labels.len(),
                &raw mut id,
            )
        };
        done(result == abi::METRIC_SUCCESS).map(|()| InstrumentId::Histogram(id))
    }

    /// Adds to a counter, or gives a value to a histogram; `labels`: the values of its labels.
    pub(crate) fn measure(self, instrument: InstrumentId, labels: &[String], value: u64) -> Result<(), Refused> {
        let mut labels = arguments(labels.iter().map(String::as_bytes));
        // SAFETY: the configuration lives, and the values are valid during the call.
        let result = unsafe {
            match instrument {
                InstrumentId::Counter(id) => abi::envoy_dynamic_module_callback_http_filter_config_increment_counter(
                    self.0,
                    id,
                    labels.as_mut_ptr(),
                    labels.len(),
                    value,
                ),
                InstrumentId::Histogram(id) => {
                    abi::envoy_dynamic_module_callback_http_filter_config_record_histogram_value(
                        self.0,
                        id,
                        labels.as_mut_ptr(),
                        labels.len(),
                        value,
                    )
                }
            }
        };
        done(result == abi::METRIC_SUCCESS)
    }

    /// Begins an HTTP call, and gives its number. On the main thread alone.
    pub(crate) fn begin_call(
        self,
        cluster: &str,
        headers: &[(&str, String)],
        body: &[u8],
        timeout_ms: u32,
    ) -> Result<u64, Refused> {
        // Envoy writes the length of a body for callouts alone.
        let length = (!body.is_empty()).then(|| ("content-length", body.len().to_string()));
        let mut lines: Vec<HeaderLine> = headers.iter().chain(&length).map(|(name, value)| line(name, value)).collect();
        let mut call = 0;
        // SAFETY: the configuration lives, everything is valid, and the number can be written, during the call.
        let result = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_config_start_http_stream(
                self.0,
                &raw mut call,
                argument(cluster.as_bytes()),
                lines.as_mut_ptr(),
                lines.len(),
                argument(body),
                true,
                u64::from(timeout_ms),
            )
        };
        done(result == abi::CALLOUT_SUCCESS).map(|()| call)
    }

    /// Ends a call. Envoy calls its hook for that before this returns. On the main thread alone.
    pub(crate) fn reset_call(self, call: u64) {
        // SAFETY: the configuration lives. Envoy ignores a call that has ended.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_config_reset_http_stream(self.0, call) }
    }

    /// Asks for a secret, and gives its number; `source`: a `ConfigSource` as JSON, empty for a secret of the bootstrap. Only while
    /// the configuration is made.
    pub(crate) fn subscribe_secret(self, name: &str, source: &str) -> Result<usize, Refused> {
        static SUBSCRIBE: Optional<abi::SecretSubscribe> = Optional::new();
        let function = c"envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe";
        // SAFETY: the type is that of this function.
        let subscribe = unsafe { SUBSCRIBE.get(function) }.ok_or(Refused)?;
        // SAFETY: the configuration lives, and both texts are valid during the call.
        let id = unsafe { subscribe(self.0, argument(name.as_bytes()), argument(source.as_bytes())) };
        done(id != 0).map(|()| id)
    }

    /// The value of a secret as it is now; `None` if there is none yet. On a thread of Envoy.
    pub(crate) fn secret(self, id: usize) -> Option<Vec<u8>> {
        static GET: Optional<abi::SecretGet> = Optional::new();
        // SAFETY: the type is that of this function.
        let get = unsafe { GET.get(c"envoy_dynamic_module_callback_http_filter_config_get_generic_secret") }?;
        let mut result = EMPTY;
        // SAFETY: the configuration lives, and the result can be written, during the call.
        let found = unsafe { get(self.0, id, &raw mut result) };
        // SAFETY: Envoy's bytes are valid until its thread goes on to another event.
        found.then(|| unsafe { copied(result) }).filter(|value| !value.is_empty())
    }

    /// What calls this configuration's hook on the main thread.
    pub(crate) fn scheduler(self) -> ConfigScheduler {
        // SAFETY: the configuration lives. The scheduler belongs to this module until it is dropped.
        ConfigScheduler(unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_new(self.0) })
    }
}

fn arguments<'b>(texts: impl Iterator<Item = &'b [u8]>) -> Vec<Buffer> {
    texts.map(argument).collect()
}

/// Calls the hook `config_scheduled` of a configuration on Envoy's main thread.
pub(crate) struct ConfigScheduler(SchedulerPtr);

// SAFETY: Envoy says that a scheduler may be used on every thread.
unsafe impl Send for ConfigScheduler {}
// SAFETY: its only operation, `commit`, posts to the main thread, which needs no exclusive access.
unsafe impl Sync for ConfigScheduler {}

impl ConfigScheduler {
    /// Calls the hook soon, with this event; never, if the configuration has ended.
    pub(crate) fn commit(&self, event: u64) {
        // SAFETY: the scheduler lives until it is dropped.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_commit(self.0, event) }
    }
}

impl Drop for ConfigScheduler {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_delete(self.0) }
    }
}

/// The status of the reply to a call.
///
/// # Safety
/// The lines have to be valid, as those of a hook are until it returns.
pub(crate) unsafe fn status((lines, count): (*const HeaderLine, usize)) -> Option<u16> {
    // SAFETY: as the caller says.
    unsafe { items(lines, count) }.iter().find_map(|line| {
        // SAFETY: Envoy's names and values are valid until the hook returns.
        let (name, value) = unsafe { (lent(line.key_ptr, line.key_length), lent(line.value_ptr, line.value_length)) };
        (name == b":status").then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
    })
}

/// A part of the body of the reply to a call.
///
/// # Safety
/// The chunks have to be valid, as those of a hook are until it returns.
pub(crate) unsafe fn pieces<'e>((chunks, count): (*const Buffer, usize)) -> impl Iterator<Item = &'e [u8]> {
    // SAFETY: as the caller says.
    unsafe { items::<Buffer>(chunks, count) }.iter().map(|chunk| {
        // SAFETY: as above.
        unsafe { lent(chunk.ptr, chunk.length) }
    })
}
