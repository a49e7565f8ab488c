//! `check`: a policy document, or a gateway's configuration, before it is used.

use super::FORWARD;
use super::findings::{self, FindingArguments, name};
use crate::input::{read, variable};
use crate::lint;
use crate::lints::diagnostics::CheckedFile;
use crate::lints::diagnostics::source::SourceText;
use crate::live::{self, arguments::LiveArguments};
use crate::output::print;
use crate::profile::Profile;
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
/// With --openapi the command also compares the policy with an OpenAPI description (3.0, 3.1 or 3.2, YAML or JSON, in one file):
/// operations without a route and routes without an operation; a key parameter that is missing, required wrongly, not taken, or has
/// a schema that the filter does not follow; refusals and headers that the description lacks. `overlay` writes most of what is
/// missing.
///
/// With --profile the command also says where routes that take keys are not as a protocol asks, and in which of its sections: acp,
/// adcp, ietf, stripe, ucp, or the path of a file like those in policies/profiles/.
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
///   edge-idempotency check policy.json --openapi openapi.yaml
///   edge-idempotency check policy.json --profile acp
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
    /// The OpenAPI description with which the policy is compared; - reads standard input.
    #[arg(long, value_name = "FILE|-", conflicts_with = "envoy")]
    openapi: Option<PathBuf>,
    /// The protocol with which the policy is compared.
    #[arg(long, value_name = "NAME|FILE", value_parser = Profile::find, conflicts_with = "envoy")]
    profile: Option<Profile>,
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

/// The error if both files should come from standard input.
pub(super) const BOTH_FROM_INPUT: &str = "only one of the policy and the description can be standard input";

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
    let description = match &args.openapi {
        Some(path) if path == Path::new("-") && args.files.iter().any(|file| file == path) => {
            return Err(BOTH_FROM_INPUT.to_owned());
        }
        Some(_) if args.files.len() > 1 => return Err("--openapi is compared with one policy: give one".to_owned()),
        Some(path) => Some(
            read(path)
                .map(|bytes| SourceText::new(name(path), &bytes))
                .map_err(|message| lint::unread_file(name(path), message)),
        ),
        None => None,
    };
    let (mut description, unread) = match description.transpose() {
        Ok(description) => (description, None),
        Err(unread) => (None, Some(unread)),
    };
    let mut files = Vec::new();
    for path in &args.files {
        match read(path) {
            Ok(bytes) => files.extend(check(path, &bytes, args, description.take())),
            Err(message) => files.push(lint::unread_file(name(path), message)),
        }
    }
    files.extend(unread);
    findings::report(files, &args.findings)
}

fn check(path: &Path, bytes: &[u8], args: &CheckArguments, description: Option<SourceText>) -> Vec<CheckedFile> {
    let source = SourceText::new(name(path), bytes);
    if args.envoy {
        lint::gateway::check_file(source, path, variable)
    } else {
        let compared = description.map(|description| lint::openapi::check(bytes, description));
        let (of_policy, described) = compared.unzip();
        let more = |policy: &Policy, document: &Value| {
            let live = if args.live.live { live::check(&args.live, policy, document) } else { Vec::new() };
            let of_profile = args.profile.iter().flat_map(|profile| lint::profile::check(profile, policy, document));
            live.into_iter().chain(of_policy.into_iter().flatten()).chain(of_profile).collect()
        };
        std::iter::once(crate::lints::check_file(source, bytes, variable, more)).chain(described).collect()
    }
}
