//! `webhook providers`: the catalogue.

use crate::commands::FORWARD;
use crate::explain::terminal_text;
use crate::output::print;
use crate::webhook::provider::{KnownProvider, ProviderFile};
use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde_json::{Value, json};

/// Lists the webhook providers that the filter knows: how they sign, where a delivery's identifier is, and for how long
/// they send a delivery again.
///
/// Examples:
///   edge-idempotency webhook providers
///   edge-idempotency webhook providers --json stripe github
///
/// A provider that is not there is described in the policy (`webhooks.providers`); docs/providers.md says how.
///
/// Exit status: 0; 2 if a provider that you name is not there.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ProvidersArguments {
    /// Only these providers.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the command; its exit status.
pub(super) fn run(args: &ProvidersArguments) -> Result<u8, String> {
    let providers: Vec<KnownProvider> = if args.names.is_empty() {
        KnownProvider::all().collect()
    } else {
        args.names.iter().map(|name| KnownProvider::named(name, None)).collect::<Result<_, _>>()?
    };
    if args.json {
        let list: Vec<Value> = providers.iter().map(to_json).collect();
        print(&terminal_text::json(&json!({"providers": list})))?;
        return Ok(FORWARD);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(["provider", "signature", "identifier", "sent again for", "documentation"]);
    for provider in &providers {
        let file = &provider.file;
        table.add_row([
            provider.name.clone(),
            file.signature_text(),
            file.identifier_text(),
            horizon(file).unwrap_or("not known").to_owned(),
            file.docs_url.clone().unwrap_or_default(),
        ]);
    }
    // A URL stays in one line, so that it can be copied.
    for column in table.column_iter_mut().take(4).skip(1) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(COLUMN)));
    }
    let text: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    print(&text.join("\n"))?;
    Ok(FORWARD)
}

/// The width of the table, and the greatest of its columns between the provider and the URL.
const WIDTH: u16 = 300;
const COLUMN: u16 = 36;

fn horizon(file: &ProviderFile) -> Option<&str> {
    file.retry.as_ref()?.horizon.as_deref()
}

/// `{"provider", "name", "signature", "identifier", "no_identifier", "max_body_bytes", "retry_horizon", "retry_attempts", "docs_url"}`
fn to_json(provider: &KnownProvider) -> Value {
    let file = &provider.file;
    json!({
        "provider": provider.name,
        "name": file.name,
        "signature": file.signature_text(),
        "identifier": file.identifier_text(),
        "no_identifier": file.no_identifier,
        "max_body_bytes": file.max_body_bytes,
        "retry_horizon": horizon(file),
        "retry_attempts": file.retry.as_ref().and_then(|retry| retry.attempts.as_deref()),
        "docs_url": file.docs_url,
    })
}
