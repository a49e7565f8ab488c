//! `check`: a policy document, or a gateway's configuration, before it is used.

use super::FORWARD;
use super::findings::{self, FindingArguments, name};
use crate::input::{read, variable};
use crate::lint;
use crate::lints::diagnostics::CheckedFile;
use crate::lints::diagnostics::source::SourceText;
use crate::live::{self, arguments::LiveArguments};
use crate::output::print;
use clap::Args;
use edge_idempotency_engine::{Policy, policy};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Checks policy documents, and the gateway around them, before they are used.
///
/// Finds everything that the filter refuses at start, and documents that start and do not do what was meant: writes
/// without a policy, results that are gone before the retry comes, secrets in the file, and more. Each finding shows the
/// line, what is wrong and what to write instead; docs/lints.md says more about each of them.
///
/// With --envoy the files are configurations of Envoy (YAML or JSON). The command takes the policy out of the filter's
/// configuration, checks it, and also checks the gateway: order of filters, buffer limits, path normalisation, variables,
/// clusters, routes, retries, access log.
///
/// With --live the command also asks what the policy needs: the guard, Restate, the registry, the secret store, the issuer's keys
/// and the gateway. Options say where they are, as seen from here. Credentials come from the environment: those that the policy
/// names, UNKEY_ROOT_KEY, BAO_TOKEN or VAULT_TOKEN, RESTATE_AUTH_TOKEN. The guard keeps two claims of a made-up key.
///
/// Secrets are checked where the command can see them: in the document, or in this command's environment.
///
/// Examples:
///   edge-idempotency check policy.json
///   cat policy.json | edge-idempotency check -
///   edge-idempotency check --deny all --allow unmatched-write policies/examples/*.json
///   edge-idempotency check --envoy envoy.yaml
///   edge-idempotency check --live --upstream restate=http://127.0.0.1:8080 --admin http://127.0.0.1:9070 \
///     --admin-envoy http://127.0.0.1:9901 policy.json
///   edge-idempotency check --schema > schema.json
///   edge-idempotency check --format sarif policy.json > check.sarif
///
/// Exit status: 0 if there is no error; 1 if the only errors are those of --deny; 2 if the filter would not start, the
/// gateway has an error, or a file cannot be read.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckArguments {
    /// Policy documents, or with --envoy configurations of Envoy; - reads standard input.
    #[arg(value_name = "FILE|-", required_unless_present_any = ["list_lints", "schema"])]
    files: Vec<PathBuf>,
    /// The files are configurations of Envoy.
    #[arg(long)]
    envoy: bool,
    #[command(flatten)]
    live: LiveArguments,
    #[command(flatten)]
    findings: FindingArguments,
    /// Prints the names of all lints and what they find.
    #[arg(long, exclusive = true)]
    list_lints: bool,
    /// Prints the JSON Schema of policy documents, with which an editor completes and explains them.
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &CheckArguments) -> Result<u8, String> {
    if args.list_lints {
        print(lint::page::table().trim_end())?;
        return Ok(FORWARD);
    }
    if args.schema {
        let schema: Value = serde_json::from_str(&policy::schema()).map_err(|error| error.to_string())?;
        print(&format!("{schema:#}"))?;
        return Ok(FORWARD);
    }
    if !args.live.live && args.live.restate.is_given() {
        return Err("--admin and --header-env say where `check --live` asks: add --live".to_owned());
    }
    let names = args.live.upstreams.iter().map(|upstream| &upstream.name);
    if names.collect::<BTreeSet<_>>().len() != args.live.upstreams.len() {
        return Err("two --upstream have the same name".to_owned());
    }
    let mut files = Vec::new();
    for path in &args.files {
        match read(path) {
            Ok(bytes) => files.extend(check(path, &bytes, args)),
            Err(message) => files.push(lint::unread_file(name(path), message)),
        }
    }
    findings::report(files, &args.findings)
}

fn check(path: &Path, bytes: &[u8], args: &CheckArguments) -> Vec<CheckedFile> {
    let source = SourceText::new(name(path), bytes);
    if args.envoy {
        lint::gateway::check_file(source, path, variable)
    } else {
        let live = |policy: &Policy, document: &Value| match args.live.live {
            true => live::check(&args.live, policy, document),
            false => Vec::new(),
        };
        vec![crate::lints::check_file(source, bytes, variable, live)]
    }
}
