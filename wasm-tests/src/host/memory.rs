//! The guest's memory: reading arguments, and handing over results that the guest then owns.

use wasmi::{Caller, Memory};

use super::state::State;
use super::status::{HostError, Status};

fn memory(caller: &Caller<'_, State>) -> Result<Memory, HostError> {
    caller.data().memory.ok_or(HostError::Status(Status::InvalidMemoryAccess))
}

fn span(pointer: u32, length: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(pointer).ok()?;
    Some(start..start.checked_add(length)?)
}

pub(super) fn read(caller: &Caller<'_, State>, pointer: u32, length: u32) -> Result<Vec<u8>, HostError> {
    let length = usize::try_from(length).map_err(|_| Status::InvalidMemoryAccess)?;
    let bytes = span(pointer, length).and_then(|span| memory(caller).ok()?.data(caller).get(span));
    bytes.map(<[u8]>::to_vec).ok_or(HostError::Status(Status::InvalidMemoryAccess))
}

/// A name or a message; ill-formed text is shown with replacement characters.
pub(super) fn read_text(caller: &Caller<'_, State>, pointer: u32, length: u32) -> Result<String, HostError> {
    Ok(String::from_utf8_lossy(&read(caller, pointer, length)?).into_owned())
}

pub(super) fn write(caller: &mut Caller<'_, State>, pointer: u32, bytes: &[u8]) -> Result<(), HostError> {
    let target = span(pointer, bytes.len());
    let memory = memory(caller)?;
    let target = target.and_then(|span| memory.data_mut(caller).get_mut(span)).ok_or(Status::InvalidMemoryAccess)?;
    target.copy_from_slice(bytes);
    Ok(())
}

pub(super) fn write_u32(caller: &mut Caller<'_, State>, pointer: u32, value: u32) -> Result<(), HostError> {
    write(caller, pointer, &value.to_le_bytes())
}

/// Copies `bytes` into memory the guest allocates; nothing to hand over is pointer 0, length 0.
pub(super) fn give(caller: &mut Caller<'_, State>, bytes: &[u8], pointer: u32, length: u32) -> Result<(), HostError> {
    let size = u32::try_from(bytes.len()).map_err(|_| Status::InvalidMemoryAccess)?;
    let mut address = 0;
    if size > 0 {
        let allocate = caller.data().allocate.ok_or(Status::InvalidMemoryAccess)?;
        address = allocate.call(&mut *caller, size)?;
        if address == 0 {
            return Err(Status::InvalidMemoryAccess.into());
        }
        write(caller, address, bytes)?;
    }
    write_u32(caller, pointer, address)?;
    write_u32(caller, length, size)
}
