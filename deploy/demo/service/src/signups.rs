//! `Signups`: a workflow, which runs once for each workflow key, whoever starts it. Restate keeps its result for a day.

use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// `Signups`: the key names the sign-up.
pub(crate) struct Signups;

#[derive(Deserialize, Serialize)]
pub(crate) struct Signup {
    /// Where the provider reaches who signs up
    pub(crate) email: String,
}

#[restate_sdk::workflow(client_visibility = "pub(crate)", workflow_completion_retention = "1 day")]
impl Signups {
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, Json(signup): Json<Signup>) -> HandlerResult<Json<Value>> {
        Ok(Json(json!({"signup": ctx.key(), "email": signup.email})))
    }
}
