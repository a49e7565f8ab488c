//! The report as a table for people and as JSON for programs.

use super::{LeftOut, Refusals, Report, Totals};
use crate::explain::terminal_text::printable;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Map, Value, json};

/// How a tenant or a project that is not known stands in tables, as in the filter's metrics.
const NONE: &str = "_none";
/// How a request that no route declares stands in tables, as in the filter's metrics.
const UNMATCHED: &str = "_unmatched";

impl Report {
    /// The report as JSON. Names that are not known are `null`.
    pub(crate) fn to_json(&self) -> Value {
        let mut report = totals_json(&self.totals);
        report.insert("lines".to_owned(), json!(self.lines));
        let refusals =
            self.sorted_refusals().into_iter().map(|([tenant, endpoint, policy, code, reason, method, path], refusals)| {
                json!({"tenant": tenant, "endpoint": endpoint, "policy": policy, "code": code, "reason": reason, "method": method,
                   "path": path, "count": refusals.count, "first": refusals.first, "last": refusals.last})
            });
        report.insert("refusals".to_owned(), refusals.collect());
        let unrouted =
            self.unrouted.sorted(|refusals| refusals.count).into_iter().map(|([method, path, code], refusals)| {
                json!({"method": method, "path": path, "code": code, "count": refusals.count, "first": refusals.first,
               "last": refusals.last})
            });
        report.insert("unrouted".to_owned(), unrouted.collect());
        let webhooks = self.webhooks.sorted(|totals| totals.requests).into_iter();
        let webhooks = webhooks.map(|([endpoint], totals)| {
            json!({"endpoint": endpoint, "requests": totals.requests, "refused": totals.refused})
        });
        report.insert("webhooks".to_owned(), webhooks.collect());
        let shared = self.raw_keys.endpoints().into_iter();
        let shared: Value =
            shared.map(|([endpoint], shared)| json!({"endpoint": endpoint, "shared": shared})).collect();
        let raw_keys = json!({"compared": self.raw_keys.compared(), "shared": self.raw_keys.shared(),
            "requests_not_compared": self.raw_keys.not_compared(), "endpoints": shared});
        report.insert("raw_keys".to_owned(), raw_keys);
        for (name, of, groups) in [("tenants", "tenant", &self.tenants), ("endpoints", "endpoint", &self.endpoints)] {
            let rows = groups.sorted(|totals| (totals.would_be_refused, totals.requests)).into_iter().map(
                |([value], totals)| {
                    let mut row = Map::from_iter([(of.to_owned(), json!(value))]);
                    row.extend(totals_json(totals));
                    Value::Object(row)
                },
            );
            report.insert(name.to_owned(), rows.collect());
        }
        let left_out = self.left_out().map(|(name, _, left_out)| {
            let first = left_out.first.as_ref().map(|(file, line)| json!({"file": file, "line": line}));
            (name.to_owned(), json!({"count": left_out.count, "first": first}))
        });
        report.insert("not_counted".to_owned(), Value::Object(left_out.into_iter().collect()));
        let errors = self.errors.iter();
        let errors =
            errors.map(|error| json!({"file": error.file, "lines_read": error.lines_read, "message": error.message}));
        report.insert("errors".to_owned(), errors.collect());
        Value::Object(report)
    }

    /// The report as text, with at most `top` rows in each table.
    pub(crate) fn to_text(&self, top: usize) -> String {
        let mut text = String::new();
        let mut add = |title: &str, rows: &TableRows<'_>| {
            text.push_str(title);
            text.push('\n');
            text.push_str(&rows.table(top));
            text.push('\n');
        };
        let refusals = self.sorted_refusals();
        if !refusals.is_empty() {
            let mut rows =
                TableRows::new(&["requests", "tenant", "endpoint", "policy", "code", "reason", "first", "last"], 1);
            for ([tenant, endpoint, policy, code, reason, method, path], Refusals { count, first, last }) in refusals {
                let place = [method, path].into_iter().flatten().cloned().collect::<Vec<_>>().join(" ");
                let unmatched = if place.is_empty() { UNMATCHED } else { place.as_str() };
                rows.add([
                    count.to_string(),
                    or(tenant, NONE),
                    or(endpoint, unmatched),
                    or(policy, ""),
                    or(code, ""),
                    or(reason, ""),
                    or(first, ""),
                    or(last, ""),
                ]);
            }
            add("Enforcing would refuse:", &rows);
        }
        let unrouted = self.unrouted.sorted(|refusals| refusals.count);
        if !unrouted.is_empty() {
            let mut rows = TableRows::new(&["requests", "method", "path", "code", "first", "last"], 1);
            for ([method, path, code], Refusals { count, first, last }) in unrouted {
                rows.add([count.to_string(), or(method, ""), or(path, ""), or(code, ""), or(first, ""), or(last, "")]);
            }
            add("Refused already, without a route:", &rows);
        }
        for (of, absent, groups) in [("tenant", NONE, &self.tenants), ("endpoint", UNMATCHED, &self.endpoints)] {
            let header = ["requests", "would be refused", "share", "key rewritten", "refused now", of];
            let mut rows = TableRows::new(&header, 5);
            for ([name], totals) in groups.sorted(|totals| (totals.would_be_refused, totals.requests)) {
                rows.add([
                    totals.requests.to_string(),
                    totals.would_be_refused.to_string(),
                    percent(totals),
                    totals.would_be_rewritten.to_string(),
                    totals.refused.to_string(),
                    name.clone().unwrap_or_else(|| absent.to_owned()),
                ]);
            }
            if self.totals.requests > 0 {
                add(&format!("By {of}:"), &rows);
            }
        }
        if self.deliveries > 0 {
            let mut rows = TableRows::new(&["deliveries", "refused", "webhook route"], 2);
            for ([endpoint], totals) in self.webhooks.sorted(|totals| totals.requests) {
                rows.add([totals.requests.to_string(), totals.refused.to_string(), or(endpoint, UNMATCHED)]);
            }
            add("Webhook routes, which have no shadow mode:", &rows);
        }
        if self.raw_keys.shared() > 0 {
            let mut rows = TableRows::new(&["shared keys", "endpoint"], 1);
            for ([endpoint], shared) in self.raw_keys.endpoints() {
                rows.add([shared.to_string(), endpoint.clone().unwrap_or_else(|| UNMATCHED.to_owned())]);
            }
            add("Keys that several callers sent, which enforcing keeps apart:", &rows);
        }
        text.push_str(&self.summary());
        text
    }

    /// Sentences about the whole report.
    fn summary(&self) -> String {
        let Totals { requests, would_be_refused, would_be_rewritten, refused } = self.totals;
        let mut lines =
            vec![format!("{} read, {} of the filter.", count(self.lines, "line"), count(requests, "request"))];
        if requests > 0 {
            lines.push(format!(
                "Enforcing would refuse {would_be_refused} of them ({}) and rewrite the key of {would_be_rewritten}; \
                 {refused} {} refused already.",
                percent(&self.totals),
                if refused == 1 { "was" } else { "were" }
            ));
        }
        if self.raw_keys.compared() > 0 {
            let compared = count(self.raw_keys.compared() as u64, "key");
            lines.push(format!("Of {compared} in shadow mode {} came from several callers.", self.raw_keys.shared()));
        }
        if self.raw_keys.not_compared() > 0 {
            lines.push(format!(
                "The keys of {} were not compared, because there were too many keys.",
                count(self.raw_keys.not_compared(), "request")
            ));
        }
        if would_be_refused + would_be_rewritten == 0 && requests > 0 {
            lines.push("No request was in shadow mode with a key, or with something to refuse.".to_owned());
        }
        for (_, description, left_out) in self.left_out() {
            if let Some((file, line)) = &left_out.first {
                let file = printable(file);
                lines.push(format!("Not counted: {} {description}; the first is {file}:{line}.", left_out.count));
            }
        }
        lines.join("\n")
    }

    fn sorted_refusals(&self) -> Vec<&([Option<String>; 7], Refusals)> {
        self.refusals.sorted(|refusals| refusals.count)
    }

    /// Name, description and number of the lines that are not counted.
    fn left_out(&self) -> [(&'static str, &'static str, &LeftOut); 4] {
        [
            ("not_json", "that are no JSON object", &self.not_json),
            (
                "no_record",
                "without a record of the filter, which did not see these requests or had not decided about them",
                &self.no_record,
            ),
            ("too_long", "longer than 1 MiB", &self.too_long),
            ("outside_range", "outside --since and --until", &self.outside_range),
        ]
    }

    /// What went wrong, for standard error.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self
            .errors
            .iter()
            .map(|error| {
                let (file, message) = (printable(&error.file), printable(&error.message));
                format!("{file}: {message} (behind line {}; the lines before count)", error.lines_read)
            })
            .collect();
        let requests = self.totals.requests + self.deliveries;
        if requests == 0 && self.outside_range.count > 0 {
            complaints.push("no line with a record of the filter is within --since and --until".to_owned());
        } else if requests == 0 {
            complaints.push(
                "no line has a record of the filter: docs/operate.md, \"The access log\", says what the log's format needs"
                    .to_owned(),
            );
        }
        complaints
    }
}

fn or(text: &Option<String>, absent: &str) -> String {
    text.clone().unwrap_or_else(|| absent.to_owned())
}

fn totals_json(totals: &Totals) -> Map<String, Value> {
    Map::from_iter([
        ("requests".to_owned(), json!(totals.requests)),
        ("would_be_refused".to_owned(), json!(totals.would_be_refused)),
        ("share".to_owned(), json!(totals.share())),
        ("would_be_rewritten".to_owned(), json!(totals.would_be_rewritten)),
        ("refused".to_owned(), json!(totals.refused)),
    ])
}

fn percent(totals: &Totals) -> String {
    format!("{:.2} %", totals.share() * 100.0)
}

fn count(number: u64, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

/// The rows of a table; the first `numbers` columns are aligned to the right.
struct TableRows<'h> {
    header: &'h [&'h str],
    numbers: usize,
    rows: Vec<Vec<String>>,
}

impl<'h> TableRows<'h> {
    const fn new(header: &'h [&'h str], numbers: usize) -> Self {
        Self { header, numbers, rows: Vec::new() }
    }

    fn add(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().map(|cell| printable(&cell).into_owned()).collect());
    }

    fn table(&self, top: usize) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.header);
        table.add_rows(self.rows.iter().take(top));
        for column in table.column_iter_mut().take(self.numbers) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text = table.trim_fmt();
        text.push('\n');
        if let Some(more) = self.rows.len().checked_sub(top).filter(|more| *more > 0) {
            text.push_str(&format!(" … and {} (--top 0 shows all)\n", count(more as u64, "more row")));
        }
        text
    }
}
