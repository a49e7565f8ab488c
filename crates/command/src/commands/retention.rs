//! `retention`: for how long Restate keeps results, beside what the policy declares.

use super::question::confirmed;
use super::{BAD_INPUT, FORWARD, REJECT};
use crate::explain::terminal_text;
use crate::input::read_policy;
use crate::output::print;
use crate::output::tell;
use crate::restate_admin::connection::{Admin, ConnectionArguments};
use crate::restate_admin::plan::Plan;
use clap::Args;
use std::path::PathBuf;

/// Compares the policy's `retention` with Restate's services, and with --apply changes what differs.
///
/// The retention of each service in `retention.services` is compared, and that of the
/// guard (`backend.guard.retention`). Without --apply nothing is changed.
///
///   = as declared    ~ --apply changes it    ! something is left to you, and the lines below say what
///
/// --apply shows the plan and asks before anything is changed. A new retention holds for new requests; results that are stored keep
/// theirs. When a deployment is registered again with `force`, Restate takes the retention of its code, so run this after it.
/// Every change is read back, because Restate holds a retention below its max-idempotency-retention without an error. The guard's
/// claims outlast the results at any time: a change after which they would not is left out, and the output says why.
///
/// Examples:
///   edge-idempotency retention --admin http://127.0.0.1:9070 --policy policy.json
///   edge-idempotency retention --admin http://127.0.0.1:9070 --policy policy.json --check
///   edge-idempotency retention --admin http://127.0.0.1:9070 --policy policy.json --apply --yes
///
/// Exit status: 0; with --check 1 if anything is not as declared; with --apply 1 if something is left, or you said no; 2 if the policy
/// cannot be read, declares no retention, or lists the guard's service in `retention.services`, if Restate does not answer, or if
/// there is no terminal to ask on and no --yes.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RetentionArguments {
    #[command(flatten)]
    connection: ConnectionArguments,
    /// The policy document, as given to the gateway; - reads standard input.
    #[arg(long, value_name = "FILE|-")]
    policy: PathBuf,
    /// Exits with 1 if anything is not as declared.
    #[arg(long, conflicts_with = "apply")]
    check: bool,
    /// Changes what differs.
    #[arg(long)]
    apply: bool,
    /// Does not ask for confirmation.
    #[arg(long, requires = "apply")]
    yes: bool,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &RetentionArguments) -> Result<u8, String> {
    if args.apply {
        return apply(args);
    }
    let Some((admin, plan)) = plan(args)? else { return Ok(BAD_INPUT) };
    show(&plan, &admin, args)?;
    Ok(if args.check && !plan.is_clean() { REJECT } else { FORWARD })
}

fn plan(args: &RetentionArguments) -> Result<Option<(Admin, Plan)>, String> {
    let Some(policy) = read_policy(&args.policy, args.json)? else { return Ok(None) };
    let needs = policy.needs();
    let guard = needs.guard_name();
    if needs.guarded().is_some() && needs.retentions.iter().any(|retention| retention.service == guard) {
        return Err(format!(
            "/retention/services/{guard}: this is the guard's service. Remove it from retention.services: \
             `guard.retention` of the backend says how long it keeps claims"
        ));
    }
    let admin = Admin::connect(&args.connection)?;
    let plan = Plan::new(needs, &admin.services()?);
    if plan.rows.is_empty() {
        return Err(format!(
            "{} declares no retention: there is neither `retention.services` nor the backend's `guard.retention` in it",
            args.policy.display()
        ));
    }
    Ok(Some((admin, plan)))
}

fn show(plan: &Plan, admin: &Admin, args: &RetentionArguments) -> Result<(), String> {
    print(&if args.json {
        terminal_text::json(&plan.to_json(admin))
    } else {
        plan.to_text(admin, &args.policy.display().to_string())
    })
}

fn apply(args: &RetentionArguments) -> Result<u8, String> {
    let Some((admin, mut plan)) = plan(args)? else { return Ok(BAD_INPUT) };
    let changes = plan.rows.iter().filter(|row| row.is_change()).count();
    if changes > 0 && !args.yes {
        // With --json the plan is for the terminal, and standard output gets what comes of it.
        tell!("{}", plan.to_text(&admin, &args.policy.display().to_string()));
        let noun = if changes == 1 { "setting" } else { "settings" };
        if !confirmed(&format!("Change {changes} {noun} of the Restate at {}?", admin.address()))? {
            tell!("edge-idempotency: nothing was changed");
            return Ok(REJECT);
        }
    }
    plan.apply(&admin)?;
    show(&plan, &admin, args)?;
    Ok(if plan.is_clean() { FORWARD } else { REJECT })
}
