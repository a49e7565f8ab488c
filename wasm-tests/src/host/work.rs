//! What callbacks cost: the WebAssembly instructions that they execute and the host calls that they make. Both are the same in
//! every run and on every machine, so a test can hold them.

use std::collections::BTreeMap;

/// What one callback of the module has cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackWork {
    /// The name of the callback, as the module exports it.
    pub callback: String,
    /// The WebAssembly instructions that it has executed, if the module counts them. Memory that the host asks the module for is
    /// included.
    pub instructions: Option<u64>,
    /// The host calls that it has made, by their names.
    pub host_calls: BTreeMap<String, u32>,
}

/// The work of the callbacks since the last look.
#[derive(Debug, Default)]
pub(super) struct WorkLog {
    done: Vec<CallbackWork>,
    /// The host calls of the callback that runs.
    running: BTreeMap<String, u32>,
}

impl WorkLog {
    /// Notes a host call of the callback that runs.
    pub(super) fn host_call(&mut self, name: &str) {
        match self.running.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.running.insert(name.to_owned(), 1)),
        }
    }

    /// Notes the end of a callback.
    pub(super) fn callback(&mut self, name: &str, instructions: Option<u64>) {
        let host_calls = std::mem::take(&mut self.running);
        self.done.push(CallbackWork { callback: name.to_owned(), instructions, host_calls });
    }

    /// The work of each callback since this was asked before, in the order of their ends.
    pub(super) fn take(&mut self) -> Vec<CallbackWork> {
        std::mem::take(&mut self.done)
    }
}
