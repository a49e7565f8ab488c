//! `overlay`: an OpenAPI Overlay from a policy.

use crate::commands::check::BOTH_FROM_INPUT;
use crate::commands::{BAD_INPUT, FORWARD};
use crate::input::{read, read_policy};
use crate::lints::diagnostics::source::SourceText;
use crate::lints::diagnostics::tree::SpannedNode;
use crate::openapi::description;
use crate::openapi::overlay::generators::{GeneratorSwitches, stainless};
use crate::openapi::overlay::make;
use crate::openapi::references::References;
use crate::output::print_document;
use crate::output::tell;
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Writes an OpenAPI Overlay 1.1 that adds to a description what callers see of the policy.
///
/// For each operation of a route these are: the header parameter Idempotency-Key (required, optional or none), the refusals 400, 401,
/// 403, 409, 422 and 503 that the route can give, the headers of replays and retries, and the policy as x-idempotency-policy. Apply
/// the overlay with a tool such as `redocly bundle --overlay`; applying it again changes nothing.
///
/// With --openapi the overlay is for this description: its paths may lack the path of the server, their parameters may have other
/// names, and what the description has already stays as it is. Without it the targets are the paths of the policy.
///
/// Examples:
///   edge-idempotency overlay policy.json --openapi openapi.yaml > idempotency.overlay.yaml
///   edge-idempotency overlay policy.json --openapi openapi.yaml --speakeasy --fern
///   edge-idempotency overlay policy.json --stainless >> stainless.yml
///
/// Exit status: 0; 2 if the policy or the description cannot be read, or has errors.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct OverlayArguments {
    /// The policy document; - is standard input.
    #[arg(value_name = "POLICY|-")]
    policy: PathBuf,
    /// The description to which the overlay is applied; - is standard input.
    #[arg(long, value_name = "FILE|-")]
    openapi: Option<PathBuf>,
    /// Adds the extensions that Fern reads: x-fern-idempotent and x-fern-idempotency-headers.
    #[arg(long)]
    fern: bool,
    /// Adds the extension that Speakeasy reads, x-speakeasy-retries, to operations that need a key.
    #[arg(long)]
    speakeasy: bool,
    /// Prints a part of Stainless' configuration in the place of the overlay.
    #[arg(long, conflicts_with_all = ["openapi", "fern", "speakeasy", "format"])]
    stainless: bool,
    /// How the overlay is written.
    #[arg(long, value_enum, default_value_t = OverlayFormat::Yaml)]
    format: OverlayFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OverlayFormat {
    Yaml,
    Json,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &OverlayArguments) -> Result<u8, String> {
    if args.policy == Path::new("-") && args.openapi.as_deref() == Some(Path::new("-")) {
        return Err(BOTH_FROM_INPUT.to_owned());
    }
    let Some(policy) = read_policy(&args.policy, false)? else { return Ok(BAD_INPUT) };
    if args.stainless {
        print_document(&stainless(&policy))?;
        return Ok(FORWARD);
    }
    let switches = GeneratorSwitches { fern: args.fern, speakeasy: args.speakeasy };
    let made = match &args.openapi {
        None => make(&policy, None, switches)?,
        Some(file) => {
            let tree = described(file)?;
            make(&policy, Some(&References::new(&tree)), switches)?
        }
    };
    made.notes.iter().for_each(|note| tell!("note: {note}"));
    print_document(written(&made.document, args.format)?.trim_end())?;
    Ok(FORWARD)
}

fn described(file: &Path) -> Result<SpannedNode, String> {
    let source = SourceText::new(file.display().to_string(), &read(file)?);
    description::read(&source).map_err(|error| error.told(&source))
}

fn written(document: &Value, format: OverlayFormat) -> Result<String, String> {
    match format {
        OverlayFormat::Json => Ok(format!("{document:#}")),
        OverlayFormat::Yaml => {
            serde_saphyr::to_string(document).map_err(|error| format!("the overlay as YAML: {error}"))
        }
    }
}
