//! The two WASI functions the module may import: its environment, as Envoy's `vm_config.environment_variables` sets it.

use wasmi::Caller;

use super::memory;
use super::state::State;
use super::status::HostError;

const SUCCESS: u32 = 0;
const FAULT: u32 = 21;

fn entries(state: &State) -> Vec<Vec<u8>> {
    let entry = |(name, value): (&String, &String)| format!("{name}={value}\0").into_bytes();
    state.options.environment.iter().map(entry).collect()
}

pub(super) fn environ_sizes_get(caller: &mut Caller<'_, State>, count: u32, size: u32) -> Result<u32, wasmi::Error> {
    let entries = entries(caller.data());
    let total: usize = entries.iter().map(Vec::len).sum();
    errno(
        [(count, entries.len()), (size, total)].into_iter().try_for_each(|(pointer, value)| {
            memory::write_u32(caller, pointer, u32::try_from(value).unwrap_or(u32::MAX))
        }),
    )
}

pub(super) fn environ_get(caller: &mut Caller<'_, State>, pointers: u32, buffer: u32) -> Result<u32, wasmi::Error> {
    let (mut slot, mut at) = (pointers, buffer);
    errno(entries(caller.data()).iter().try_for_each(|entry| {
        memory::write_u32(caller, slot, at)?;
        memory::write(caller, at, entry)?;
        slot = slot.wrapping_add(4);
        at = at.wrapping_add(u32::try_from(entry.len()).unwrap_or(u32::MAX));
        Ok(())
    }))
}

fn errno(result: Result<(), HostError>) -> Result<u32, wasmi::Error> {
    match result {
        Ok(()) => Ok(SUCCESS),
        Err(HostError::Status(_)) => Ok(FAULT),
        Err(HostError::Trap(error)) => Err(error),
    }
}
