//! The recorder: is it there, do its APIs take connections, and does Restate know it?

use super::LiveCheck;
use super::gateway::json;
use super::restate::{missing, services};
use crate::http::without_user;
use crate::lint::live_list::{LIVE_MISSING_HANDLER, LIVE_UNREACHABLE};
use crate::restate_admin::invocations::RECORDER;
use serde_json::Value;

pub(super) fn check(live: &mut LiveCheck<'_>) {
    let Some(address) = live.args.recorder.clone() else { return };
    if let Err(error) = without_user("--recorder", &address) {
        return live.add(&LIVE_UNREACHABLE, "", error, "");
    }
    let help = "start it; --recorder is the address of its --status, and neither --listen nor --service";
    let upstreams = match json(live, &format!("{}/upstreams", address.trim_end_matches('/'))) {
        Ok(Value::Object(upstreams)) => upstreams,
        Ok(_) => return live.add(&LIVE_UNREACHABLE, "", format!("{address} is no status of a recorder"), help),
        Err(error) => return live.add(&LIVE_UNREACHABLE, "", format!("the recorder: {error}"), help),
    };
    for (name, upstream) in &upstreams {
        let text = |member: &str| upstream.get(member).and_then(Value::as_str);
        let url = text("url").unwrap_or_default();
        match text("error") {
            None => live.works("", format!("the recorder gets a connection to `{name}` ({url})")),
            Some(error) => live.add(
                &LIVE_UNREACHABLE,
                "",
                format!("the recorder gets no connection to `{name}` ({url}): {error}"),
                "start this API, or correct its URL in the recorder's options",
            ),
        }
    }
    let Some((version, services)) = services(live, "") else { return };
    match missing(&services, RECORDER, "call") {
        None => live.works("", format!("Restate {version} has the service of the recorder")),
        Some(message) => live.add(
            &LIVE_MISSING_HANDLER,
            "",
            message,
            "start the recorder with --admin URL, which registers it, or register it as it says when it starts",
        ),
    }
}
