//! The host functions of ABI 0.2.1, under the names the module imports them by.

use wasmi::{Caller, Extern, ExternType, Func, Module, Store};

use super::calls::HttpCall;
use super::state::{Deferred, Life, LogLevel, LogLine, State};
use super::status::{HostError, Status};
use super::stream::Direction;
use super::{memory, pairs, properties, wasi};
use testkit::http::{Headers, LocalReply};

type HostResult = Result<(), HostError>;

/// The module's imports, in its order; one that nobody provides is an error that names it.
pub(super) fn link(store: &mut Store<State>, module: &Module) -> Result<Vec<Extern>, String> {
    let mut unknown = Vec::new();
    let mut imports = Vec::new();
    for import in module.imports() {
        let name = import.name();
        let function = match (import.module(), import.ty()) {
            ("env", ExternType::Func(_)) => env(store, name),
            ("wasi_snapshot_preview1", ExternType::Func(_)) => environment(store, name),
            _ => None,
        };
        match function {
            Some(function) => imports.push(function.into()),
            None => unknown.push(format!("{}.{name}", import.module())),
        }
    }
    if unknown.is_empty() {
        Ok(imports)
    } else {
        Err(format!("nobody provides what it imports: {}", unknown.join(", ")))
    }
}

fn environment(store: &mut Store<State>, name: &str) -> Option<Func> {
    Some(match name {
        "environ_get" => Func::wrap(store, |mut caller: Caller<'_, State>, pointers: u32, buffer: u32| {
            wasi::environ_get(&mut caller, pointers, buffer)
        }),
        "environ_sizes_get" => Func::wrap(store, |mut caller: Caller<'_, State>, count: u32, size: u32| {
            wasi::environ_sizes_get(&mut caller, count, size)
        }),
        _ => return None,
    })
}

/// Counts a host call. While `_initialize` runs Envoy traps on every host call but logging and WASI's.
fn allowed(caller: &mut Caller<'_, State>, name: &str) -> Result<(), wasmi::Error> {
    caller.data_mut().work.host_call(name);
    if caller.data().life == Life::Initializing && name != "proxy_log" {
        return Err(wasmi::Error::new(format!("{name} is not allowed in _initialize")));
    }
    Ok(())
}

fn status(answer: HostResult) -> Result<u32, wasmi::Error> {
    match answer {
        Ok(()) => Ok(Status::Ok as u32),
        Err(HostError::Status(status)) => Ok(status as u32),
        Err(HostError::Trap(error)) => Err(error),
    }
}

/// Wraps a function of this module into a host function of the same parameters.
macro_rules! host {
    ($store:expr, $name:expr, $function:ident($($arg:ident: $ty:ty),*)) => {{
        let name = $name.to_owned();
        Func::wrap($store, move |mut caller: Caller<'_, State>, $($arg: $ty),*| -> Result<u32, wasmi::Error> {
            allowed(&mut caller, &name)?;
            status($function(&mut caller, $($arg),*))
        })
    }};
}

fn env(store: &mut Store<State>, name: &str) -> Option<Func> {
    Some(match name {
        "proxy_log" => host!(store, name, log(level: u32, text: u32, size: u32)),
        "proxy_get_log_level" => host!(store, name, get_log_level(out: u32)),
        "proxy_get_current_time_nanoseconds" => host!(store, name, get_current_time(out: u32)),
        "proxy_set_tick_period_milliseconds" => host!(store, name, set_tick_period(period: u32)),
        "proxy_set_effective_context" => host!(store, name, set_effective_context(id: u32)),
        "proxy_get_property" => host!(store, name, get_property(path: u32, size: u32, data: u32, length: u32)),
        "proxy_set_property" => host!(store, name, set_property(path: u32, size: u32, data: u32, length: u32)),
        "proxy_call_foreign_function" => host!(store, name, call_foreign_function(
            function: u32, function_size: u32, argument: u32, argument_size: u32, data: u32, length: u32
        )),
        "proxy_get_buffer_bytes" => {
            host!(store, name, get_buffer(kind: u32, start: u32, max: u32, data: u32, length: u32))
        }
        "proxy_set_buffer_bytes" => {
            host!(store, name, set_buffer(kind: u32, start: u32, size: u32, data: u32, length: u32))
        }
        "proxy_get_header_map_pairs" => host!(store, name, get_map_pairs(kind: u32, data: u32, length: u32)),
        "proxy_replace_header_map_value" => {
            host!(store, name, replace_map_value(kind: u32, key: u32, size: u32, data: u32, length: u32))
        }
        "proxy_remove_header_map_value" => host!(store, name, remove_map_value(kind: u32, key: u32, size: u32)),
        "proxy_continue_stream" => host!(store, name, continue_stream(kind: u32)),
        "proxy_send_local_response" => host!(store, name, send_local_response(
            code: u32, details: u32, details_size: u32, body: u32, body_size: u32, headers: u32, headers_size: u32,
            grpc_status: i32
        )),
        "proxy_http_call" => host!(store, name, http_call(
            cluster: u32, cluster_size: u32, headers: u32, headers_size: u32, body: u32, body_size: u32, trailers: u32,
            trailers_size: u32, timeout: i32, token: u32
        )),
        "proxy_define_metric" => host!(store, name, define_metric(kind: u32, text: u32, size: u32, out: u32)),
        "proxy_increment_metric" => host!(store, name, increment_metric(id: u32, offset: i64)),
        "proxy_record_metric" => host!(store, name, record_metric(id: u32, value: u64)),
        _ => return None,
    })
}

// The VM: log, clock, timer, contexts, properties.

fn log(caller: &mut Caller<'_, State>, level: u32, text: u32, size: u32) -> HostResult {
    let level = LogLevel::from_number(level)?;
    let message = memory::read_text(caller, text, size)?;
    caller.data_mut().logs.push(LogLine { level, message });
    Ok(())
}

fn get_log_level(caller: &mut Caller<'_, State>, out: u32) -> HostResult {
    let level = caller.data().options.log_level as u32;
    memory::write_u32(caller, out, level)
}

fn get_current_time(caller: &mut Caller<'_, State>, out: u32) -> HostResult {
    let now = caller.data().options.now;
    memory::write(caller, out, &now.to_le_bytes())
}

fn set_tick_period(caller: &mut Caller<'_, State>, period: u32) -> HostResult {
    caller.data_mut().tick_period_ms = period;
    Ok(())
}

fn set_effective_context(caller: &mut Caller<'_, State>, id: u32) -> HostResult {
    if !caller.data().has_context(id) {
        return Err(Status::BadArgument.into());
    }
    caller.data_mut().effective = id;
    Ok(())
}

fn get_property(caller: &mut Caller<'_, State>, path: u32, size: u32, data: u32, length: u32) -> HostResult {
    let path = memory::read(caller, path, size)?;
    let value = properties::get(caller.data_mut(), &path)?;
    memory::give(caller, &value, data, length)
}

fn set_property(caller: &mut Caller<'_, State>, path: u32, size: u32, data: u32, length: u32) -> HostResult {
    let path = memory::read_text(caller, path, size)?;
    let value = memory::read(caller, data, length)?;
    let stream = caller.data_mut().stream_mut().ok_or(Status::NotFound)?;
    stream.properties.insert(path, value);
    Ok(())
}

/// Only Envoy's `declare_property` exists. Envoy keeps the declaration in the context of the call, which has to be that of a
/// configuration.
fn call_foreign_function(
    caller: &mut Caller<'_, State>,
    function: u32,
    function_size: u32,
    argument: u32,
    argument_size: u32,
    data: u32,
    length: u32,
) -> HostResult {
    let function = memory::read_text(caller, function, function_size)?;
    let argument = memory::read(caller, argument, argument_size)?;
    if function != "declare_property" {
        return Err(Status::NotFound.into());
    }
    let state = caller.data_mut();
    if state.life != Life::Configuring || argument.is_empty() {
        state.fail("a property is declared outside of proxy_on_configure, or without a name");
        return Err(Status::BadArgument.into());
    }
    memory::give(caller, &[], data, length)
}

// Buffers.

fn get_buffer(caller: &mut Caller<'_, State>, kind: u32, start: u32, max: u32, data: u32, length: u32) -> HostResult {
    let end = start.checked_add(max).ok_or(Status::BadArgument)?;
    let state = caller.data();
    let body = |direction| state.stream().map_or(&[][..], |stream| stream.body(direction));
    let buffer = match kind {
        0 => body(Direction::Request),
        1 => body(Direction::Response),
        4 => &state.calls.delivering.as_ref().ok_or(Status::NotFound)?.body,
        7 if state.life == Life::Configuring => &state.options.configuration,
        2..=8 => return Err(Status::NotFound.into()),
        _ => return Err(Status::BadArgument.into()),
    };
    let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX).min(buffer.len());
    let bytes = buffer.get(at(start)..at(end)).unwrap_or_default().to_vec();
    memory::give(caller, &bytes, data, length)
}

fn set_buffer(caller: &mut Caller<'_, State>, kind: u32, start: u32, size: u32, data: u32, length: u32) -> HostResult {
    let bytes = memory::read(caller, data, length)?;
    let direction = match kind {
        0 => Direction::Request,
        1 => Direction::Response,
        _ => return Err(Status::BadArgument.into()),
    };
    let stream = caller.data_mut().stream_mut().ok_or(Status::BadArgument)?;
    let buffer = stream.body_mut(direction).ok_or(Status::BadArgument)?;
    let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX).min(buffer.len());
    // Envoy replaces a beginning or appends; it does not write in the middle.
    match (at(start), at(size)) {
        (0, replaced) => drop(buffer.splice(..replaced, bytes)),
        (start, _) if start == buffer.len() => buffer.extend(bytes),
        _ => return Err(Status::BadArgument.into()),
    }
    Ok(())
}

// Header maps.

fn get_map_pairs(caller: &mut Caller<'_, State>, kind: u32, data: u32, length: u32) -> HostResult {
    let lines: Vec<_> = caller.data().map(kind)?.map(|map| map.iter().collect()).unwrap_or_default();
    let bytes = if lines.is_empty() { Vec::new() } else { pairs::encode(&lines) };
    memory::give(caller, &bytes, data, length)
}

fn replace_map_value(
    caller: &mut Caller<'_, State>,
    kind: u32,
    key: u32,
    size: u32,
    data: u32,
    length: u32,
) -> HostResult {
    let (name, value) = line(caller, (key, size), (data, length))?;
    caller.data_mut().map_mut(kind)?.set(&name, value);
    Ok(())
}

fn remove_map_value(caller: &mut Caller<'_, State>, kind: u32, key: u32, size: u32) -> HostResult {
    let name = memory::read_text(caller, key, size)?;
    caller.data_mut().map_mut(kind)?.remove(&name);
    Ok(())
}

fn line(caller: &mut Caller<'_, State>, key: (u32, u32), value: (u32, u32)) -> Result<(String, Vec<u8>), HostError> {
    let name = memory::read(caller, key.0, key.1)?;
    let value = memory::read(caller, value.0, value.1)?;
    Ok((checked(caller.data_mut(), &name, &value), value))
}

/// Envoy takes header lines as the filter gives them, and its router answers 503 to one that would break the message.
fn checked(state: &mut State, name: &[u8], value: &[u8]) -> String {
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let text = String::from_utf8_lossy(name).into_owned();
    let bare = name.strip_prefix(b":").unwrap_or(name);
    if bare.is_empty() || !bare.iter().all(token) {
        state.fail(format!("the filter wrote a header named {:?}", name.escape_ascii().to_string()));
    }
    if value.iter().any(|byte| [0, b'\r', b'\n'].contains(byte)) {
        state.fail(format!("the filter wrote a line break or NUL into {text}"));
    }
    text
}

fn headers_from(caller: &mut Caller<'_, State>, data: u32, length: u32) -> Result<Headers, HostError> {
    let bytes = memory::read(caller, data, length)?;
    let state = caller.data_mut();
    let lines = pairs::decode(&bytes).unwrap_or_else(|| {
        state.fail("the filter sent header pairs that Envoy reads as none: malformed or too many");
        Vec::new()
    });
    Ok(lines.into_iter().map(|(name, value)| (checked(state, &name, &value), value)).collect())
}

// Streams.

fn continue_stream(caller: &mut Caller<'_, State>, kind: u32) -> HostResult {
    let direction = stream_direction(caller, kind)?;
    let state = caller.data_mut();
    let id = state.context();
    if let Some(stream) = state.stream_mut() {
        stream.hide_request();
        state.deferred.push_back((id, Deferred::Continue(direction)));
    }
    Ok(())
}

fn stream_direction(caller: &mut Caller<'_, State>, kind: u32) -> Result<Direction, Status> {
    match kind {
        0 => Ok(Direction::Request),
        1 => Ok(Direction::Response),
        2 | 3 => {
            caller.data_mut().fail("the filter acts on a TCP stream; this host has HTTP only");
            Err(Status::Unimplemented)
        }
        _ => Err(Status::BadArgument),
    }
}

#[allow(clippy::too_many_arguments, reason = "the signature is the ABI's")]
fn send_local_response(
    caller: &mut Caller<'_, State>,
    code: u32,
    details: u32,
    details_size: u32,
    body: u32,
    body_size: u32,
    headers: u32,
    headers_size: u32,
    grpc_status: i32,
) -> HostResult {
    let details = memory::read_text(caller, details, details_size)?;
    let body = memory::read(caller, body, body_size)?;
    let headers = headers_from(caller, headers, headers_size)?;
    let state = caller.data_mut();
    let grpc_status = u8::try_from(grpc_status).ok();
    let id = state.context();
    if state.stream().is_some() {
        let reply = LocalReply { status: code, headers, body, details, grpc_status };
        state.deferred.push_back((id, Deferred::Reply(reply)));
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the signature is the ABI's")]
fn http_call(
    caller: &mut Caller<'_, State>,
    cluster: u32,
    cluster_size: u32,
    headers: u32,
    headers_size: u32,
    body: u32,
    body_size: u32,
    trailers: u32,
    trailers_size: u32,
    timeout: i32,
    out: u32,
) -> HostResult {
    let cluster = memory::read_text(caller, cluster, cluster_size)?;
    let headers = headers_from(caller, headers, headers_size)?;
    let body = memory::read(caller, body, body_size)?;
    let trailers = headers_from(caller, trailers, trailers_size)?;
    let timeout_ms = u32::try_from(timeout).map_err(|_| Status::BadArgument)?;
    let complete = [":method", ":path", ":authority"].iter().all(|name| headers.get(name).is_some());
    if !complete || !caller.data().options.clusters.contains(&cluster) {
        return Err(Status::BadArgument.into());
    }
    memory::write_u32(caller, out, 0)?;
    let context = caller.data().context();
    let call = HttpCall { token: 0, context, cluster, headers, body, trailers, timeout_ms };
    let token = caller.data_mut().calls.dispatch(call);
    memory::write_u32(caller, out, token)
}

// Metrics.

fn define_metric(caller: &mut Caller<'_, State>, kind: u32, text: u32, size: u32, out: u32) -> HostResult {
    let name = memory::read_text(caller, text, size)?;
    let id = caller.data_mut().metrics.define(kind, name)?;
    memory::write_u32(caller, out, id)
}

fn increment_metric(caller: &mut Caller<'_, State>, id: u32, offset: i64) -> HostResult {
    Ok(caller.data_mut().metrics.increment(id, offset)?)
}

fn record_metric(caller: &mut Caller<'_, State>, id: u32, value: u64) -> HostResult {
    Ok(caller.data_mut().metrics.record(id, value)?)
}
