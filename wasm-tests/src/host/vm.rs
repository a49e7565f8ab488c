//! A VM: the module, its start, and calls into it.

use std::fmt;

use wasmi::{Config, Engine, Instance, Module, Store, TrapCode, Val};

use super::abi;
use super::calls::{CallReply, HttpCall};
use super::counting::COUNT;
use super::metrics::Metrics;
use super::state::{Life, LogLine, Options, ROOT, State};
use super::work::CallbackWork;

/// What one guest call may burn before it counts as one that never returns; some seconds.
const FUEL: u64 = 1_000_000_000;

/// The only ABI this host speaks.
const ABI_MARKER: &str = "proxy_abi_version_0_2_1";

/// A module that was read and validated. A test process does that once, and starts many VMs from it.
#[derive(Clone)]
pub struct Program {
    engine: Engine,
    module: Module,
}

impl Program {
    /// Reads a module in the binary format.
    pub fn new(wasm: &[u8]) -> Result<Self, String> {
        let engine = Engine::new(Config::default().consume_fuel(true));
        let module = Module::new(&engine, wasm).map_err(|error| format!("not a module: {error:?}"))?;
        Ok(Self { engine, module })
    }
}

/// Why a VM did not start.
#[derive(Debug)]
pub enum BootError {
    /// The module does not fit this host: an import nobody provides, no memory, no allocator, another ABI.
    Unfit(String),
    /// `vm_start` or `configure` said no; these are the lines it logged.
    Refused {
        /// The callback that said no.
        callback: &'static str,
        /// What the filter logged until then.
        logs: Vec<LogLine>,
        /// What the host noted until then.
        failures: Vec<String>,
    },
    /// It trapped on the way.
    Trapped {
        /// What the filter logged until then.
        logs: Vec<LogLine>,
        /// The callback and the trap, and what the host noted before it.
        failures: Vec<String>,
    },
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(why) => write!(f, "the module does not fit: {why}"),
            Self::Refused { callback, logs, failures } => {
                write!(f, "{callback} refused to start\nlogs: {logs:#?}\nfailures: {failures:#?}")
            }
            Self::Trapped { logs, failures } => write!(f, "trapped at start: {failures:#?}\nlogs: {logs:#?}"),
        }
    }
}

impl std::error::Error for BootError {}

/// What came of a call into the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// The module does not export it.
    Missing,
    /// It returned; a callback without a result returns 0.
    Returned(u32),
    /// It trapped, now or earlier.
    Trapped,
}

/// One VM, as one worker thread of Envoy has it.
pub struct Vm {
    pub(super) store: Store<State>,
    instance: Instance,
    next_context: u32,
}

impl Vm {
    /// Starts a VM: `_initialize`, `main` if exported, the root context, `vm_start`, `configure`.
    pub fn boot(program: &Program, options: Options) -> Result<Self, BootError> {
        let unfit = |why: wasmi::Error| BootError::Unfit(format!("{why:?}"));
        let mut store = Store::new(&program.engine, State::new(options));
        store.set_fuel(FUEL).map_err(unfit)?;
        let imports = abi::link(&mut store, &program.module).map_err(BootError::Unfit)?;
        let instance = Instance::new(&mut store, &program.module, &imports).map_err(unfit)?;
        if instance.get_func(&store, ABI_MARKER).is_none() {
            return Err(BootError::Unfit(format!("it does not export {ABI_MARKER}")));
        }
        let memory = instance.get_memory(&store, "memory");
        store.data_mut().memory = Some(memory.ok_or(BootError::Unfit("it exports no memory".to_owned()))?);
        let allocate = ["proxy_on_memory_allocate", "malloc"]
            .into_iter()
            .find_map(|name| instance.get_typed_func::<u32, u32>(&store, name).ok());
        store.data_mut().allocate = Some(allocate.ok_or(BootError::Unfit("it exports no allocator".to_owned()))?);

        let mut vm = Self { store, instance, next_context: ROOT + 1 };
        vm.boot_call("_initialize", 0, &[])?;
        vm.boot_call("main", 0, &[0, 0])?;
        vm.state_mut().life = Life::Configuring;
        vm.new_root(ROOT)?;
        vm.start_call("proxy_on_vm_start", ROOT, 0)?;
        vm.start_call("proxy_on_configure", ROOT, vm.state().options.configuration.len())?;
        vm.state_mut().life = Life::Running;
        Ok(vm)
    }

    /// The functions that were called since this was asked before, each with its bytes, in the order of their first calls. The module
    /// notes them (`xtask note-first-calls`).
    pub fn take_first_calls(&mut self) -> Vec<(String, usize)> {
        let globals: Vec<_> = self
            .instance
            .exports(&self.store)
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|export| {
                let name = export.name().to_owned();
                export.into_global().map(|global| (name, global))
            })
            .collect();
        let mut called = Vec::new();
        for (name, global) in globals {
            let Some(rest) = name.strip_prefix("first_call") else { continue };
            let number = global.get(&self.store).i32().unwrap_or_default();
            if let Some((bytes, function)) =
                rest.strip_prefix(':').filter(|_| number > 0).and_then(|rest| rest.split_once(':'))
            {
                called.push((number, function.to_owned(), bytes.parse().unwrap_or_default()));
            }
            let _ = global.set(&mut self.store, Val::I32(0));
        }
        called.sort_unstable();
        called.into_iter().map(|(_, function, bytes)| (function, bytes)).collect()
    }

    /// Starts another configuration in this VM, as Envoy does for each with the same `vm_id`, and gives its root context.
    ///
    /// # Errors
    /// It does not start; what runs already runs on.
    pub fn configure_another(&mut self, configuration: &[u8]) -> Result<u32, BootError> {
        let root = self.new_context();
        let first = std::mem::replace(&mut self.state_mut().options.configuration, configuration.to_vec());
        self.state_mut().life = Life::Configuring;
        let started =
            self.new_root(root).and_then(|()| self.start_call("proxy_on_configure", root, configuration.len()));
        self.state_mut().life = Life::Running;
        self.state_mut().options.configuration = first;
        started.map(|()| root)
    }

    /// Ends a configuration, as Envoy does once the listener that had it is gone.
    pub fn end(&mut self, root: u32) {
        self.callback("proxy_on_done", root, &[root]);
        self.callback("proxy_on_delete", root, &[root]);
        self.state_mut().roots.remove(&root);
    }

    fn new_root(&mut self, root: u32) -> Result<(), BootError> {
        self.state_mut().roots.insert(root);
        self.boot_call("proxy_on_context_create", root, &[root, 0]).map(drop)
    }

    fn start_call(&mut self, callback: &'static str, root: u32, size: usize) -> Result<(), BootError> {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        if self.boot_call(callback, root, &[root, size])? == Called::Returned(0) {
            let logs = std::mem::take(&mut self.state_mut().logs);
            return Err(BootError::Refused { callback, logs, failures: self.take_failures() });
        }
        Ok(())
    }

    fn boot_call(&mut self, name: &str, context: u32, args: &[u32]) -> Result<Called, BootError> {
        match self.call(name, context, args) {
            Called::Trapped => {
                let logs = std::mem::take(&mut self.state_mut().logs);
                Err(BootError::Trapped { logs, failures: self.take_failures() })
            }
            called => Ok(called),
        }
    }

    /// What a module that counts its instructions has counted until now ([`counting`](super::counting)).
    fn instructions(&self) -> Option<u64> {
        self.instance.get_global(&self.store, COUNT)?.get(&self.store).i64().map(i64::cast_unsigned)
    }

    /// The work of each callback since this was asked before, in the order of their ends.
    pub fn take_work(&mut self) -> Vec<CallbackWork> {
        self.state_mut().work.take()
    }

    /// Lets the timer fire once, as it does every period the filter asked for.
    pub fn tick(&mut self) {
        if self.state().tick_period_ms == 0 {
            self.state_mut().fail("the test ticks a VM that set no tick period");
        }
        self.callback("proxy_on_tick", ROOT, &[ROOT]);
    }

    /// The tick period the filter asked for; zero is none.
    pub fn tick_period_ms(&self) -> u32 {
        self.state().tick_period_ms
    }

    /// HTTP calls waiting for an answer, oldest first.
    pub fn calls(&self) -> Vec<&HttpCall> {
        self.state().calls.pending().collect()
    }

    /// Answers an HTTP call; its headers, body and trailers can be read during that callback only. The call of a context
    /// that is gone has ended with it: no callback comes.
    pub fn answer_call(&mut self, token: u32, reply: CallReply) {
        let Some(call) = self.state_mut().calls.take(token) else {
            self.state_mut().fail(format!("the test answers HTTP call {token}, which is not waiting"));
            return;
        };
        if !self.state().has_context(call.context) {
            return;
        }
        let reply = match reply {
            CallReply::Response(message) => Some(message),
            CallReply::Failed => None,
        };
        let count = |length: Option<usize>| u32::try_from(length.unwrap_or(0)).unwrap_or(u32::MAX);
        let headers = count(reply.as_ref().map(|reply| reply.headers.len()));
        let body = count(reply.as_ref().map(|reply| reply.body.len()));
        let trailers = count(reply.as_ref().and_then(|reply| reply.trailers.as_ref()).map(|trailers| trailers.len()));
        self.state_mut().calls.delivering = reply;
        let args = [call.context, token, headers, body, trailers];
        self.callback("proxy_on_http_call_response", call.context, &args);
        self.state_mut().calls.delivering = None;
    }

    /// Moves the clock.
    pub fn set_now(&mut self, nanoseconds: u64) {
        self.state_mut().options.now = nanoseconds;
    }

    /// All metrics as they stand.
    pub fn metrics(&self) -> &Metrics {
        &self.state().metrics
    }

    /// Everything logged so far.
    pub fn logs(&self) -> &[LogLine] {
        &self.state().logs
    }

    /// What trapped, if anything did; such a VM serves no stream any more.
    pub fn trap(&self) -> Option<&str> {
        self.state().trap.as_deref()
    }

    /// What went wrong without the guest being told, and takes it off the VM.
    #[must_use = "failures that nobody looks at make a test pass by accident"]
    pub fn take_failures(&mut self) -> Vec<String> {
        std::mem::take(&mut self.state_mut().failures)
    }

    pub(super) fn state(&self) -> &State {
        self.store.data()
    }

    pub(super) fn state_mut(&mut self) -> &mut State {
        self.store.data_mut()
    }

    pub(super) fn new_context(&mut self) -> u32 {
        let id = self.next_context;
        self.next_context += 1;
        id
    }

    /// Calls into the guest, then does what it asked to have done afterwards.
    pub(super) fn callback(&mut self, name: &str, context: u32, args: &[u32]) -> Called {
        let called = self.call(name, context, args);
        while let Some((id, action)) = self.state_mut().deferred.pop_front() {
            self.run_deferred(id, action);
        }
        called
    }

    fn call(&mut self, name: &str, context: u32, args: &[u32]) -> Called {
        if self.state().trap.is_some() {
            return Called::Trapped;
        }
        let Some(function) = self.instance.get_func(&self.store, name) else { return Called::Missing };
        let outer = (self.state().current, self.state().effective);
        (self.state_mut().current, self.state_mut().effective) = (context, 0);
        let args: Vec<Val> = args.iter().map(|arg| Val::I32(arg.cast_signed())).collect();
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        let before = self.instructions();
        let outcome = self.store.set_fuel(FUEL).and_then(|()| function.call(&mut self.store, &args, &mut results));
        (self.state_mut().current, self.state_mut().effective) = outer;
        let instructions = self.instructions().zip(before).map(|(after, before)| after.wrapping_sub(before));
        self.state_mut().work.callback(name, instructions);
        match outcome {
            Ok(()) => Called::Returned(results.first().and_then(Val::i32).map_or(0, i32::cast_unsigned)),
            Err(error) => {
                self.poison(name, &error);
                Called::Trapped
            }
        }
    }

    fn poison(&mut self, callback: &str, error: &wasmi::Error) {
        let why = match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => "it did not return".to_owned(),
            _ => error.to_string(),
        };
        let last = self.logs().last().map(|line| format!("; the last line logged was: {}", line.message));
        let trap = format!("{callback} trapped: {why}{}", last.unwrap_or_default());
        let state = self.state_mut();
        state.deferred.clear();
        state.fail(trap.clone());
        state.trap = Some(trap);
    }
}

impl Drop for Vm {
    #[allow(clippy::panic, reason = "a test must not pass over failures it did not look at")]
    fn drop(&mut self) {
        let failures = self.take_failures();
        if !failures.is_empty() && !std::thread::panicking() {
            panic!("nobody looked at the failures of this VM: {failures:#?}");
        }
    }
}

impl fmt::Debug for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vm").field("trap", &self.trap()).finish_non_exhaustive()
    }
}
