//! Links of pages, and names of pages in all other files, lead to a file and a heading that exist.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold what was built or fetched.
const NOT_OURS: [&str; 3] = ["target", "dist", "node_modules"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Every file below the folder that is text, without hidden folders.
fn files(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push((path, text));
        }
    }
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn events(page: &str) -> Parser<'_> {
    Parser::new_ext(page, Options::ENABLE_TABLES)
}

/// The headings of a page as GitHub makes anchors of them: lower case, no punctuation, `-` for a space, a number behind a
/// repetition.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in events(page) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            (Event::End(TagEnd::Heading(_)), Some(text)) => {
                let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
                let anchor = text.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
                let repeated = (1..).map(|number| format!("{anchor}-{number}"));
                let free = std::iter::once(anchor.clone()).chain(repeated).find(|name| !anchors.contains(name));
                anchors.extend(free);
                heading = None;
            }
            _ => {}
        }
    }
    anchors
}

/// What is wrong with a link to a file, and to a heading of it.
fn fault(target: &Path, anchor: Option<&str>) -> Option<&'static str> {
    if !target.exists() {
        return Some("there is no such file");
    }
    let anchor = anchor.filter(|_| is_page(target))?;
    (!anchors(&fs::read_to_string(target).unwrap()).contains(anchor)).then_some("the page has no such heading")
}

/// The links of a page that lead nowhere.
fn dead_links(path: &Path, page: &str) -> Vec<String> {
    let links = events(page).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url),
        _ => None,
    });
    let of_files = links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
    let dead = of_files.filter_map(|link| {
        let (file, anchor) = link.split_once('#').map_or((&*link, None), |(file, anchor)| (file, Some(anchor)));
        let target = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        fault(&target, anchor).map(|fault| format!("{}: {link}: {fault}", path.display()))
    });
    dead.collect()
}

/// The pages that a text names, as in `docs/policy.md#routes` or `decisions/0011-json.md`, and that do not exist. In a page the
/// links say which heading is meant.
fn dead_names(path: &Path, text: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let names = text.match_indices(".md").filter_map(|(end, ending)| {
        let before = text[..end].trim_end_matches(|c| word(c) || matches!(c, '/' | '.'));
        let name = text[before.len()..end + ending.len()].trim_start_matches("../");
        let page = name.strip_prefix("docs/").or_else(|| name.starts_with("decisions/").then_some(name))?;
        let anchor = text[end + ending.len()..].strip_prefix('#').map(|rest| rest.split(|c| !word(c)).next().unwrap());
        Some((name, page, anchor.filter(|_| !is_page(path))))
    });
    let dead = names.filter_map(|(name, page, anchor)| {
        let fault = fault(&root().join("docs").join(page), anchor)?;
        Some(format!("{}: {name}{}: {fault}", path.display(), anchor.map_or_else(String::new, |at| format!("#{at}"))))
    });
    dead.collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut all = Vec::new();
    files(&root(), &mut all);
    // The generated pages begin with a text that links as the page does, from docs/.
    let is_part = |path: &Path| path.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("page_"));
    let pages = all.iter().filter(|(path, _)| is_page(path) && !is_part(path));
    let mut dead: Vec<String> = pages.flat_map(|(path, page)| dead_links(path, page)).collect();
    dead.extend(all.iter().flat_map(|(path, text)| dead_names(path, text)));
    assert!(all.len() > 500, "only {} files", all.len());
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// The site has the pages that the navigation names. Whoever does not see a diagram reads its description.
#[test]
fn the_navigation_has_every_page_and_diagrams_are_described() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut all = Vec::new();
    files(&docs, &mut all);
    for (path, page) in all.iter().filter(|(path, _)| is_page(path) && !path.ends_with("SUMMARY.md")) {
        let name = path.strip_prefix(&docs).unwrap().display().to_string();
        assert!(summary.contains(&format!("]({name})")), "docs/SUMMARY.md has no {name}");
        let described = page.split("```mermaid").skip(1).filter(|diagram| diagram.contains("accDescr:"));
        assert_eq!(described.count(), page.matches("```mermaid").count(), "{name} has a diagram without accDescr");
    }
}

#[test]
fn dead_links_are_found() {
    let page = root().join("docs/policy.md");
    let text =
        "[a](#routes) [b](identity.md#tokens) [c](#none) [d](none.md) [e](identity.md#none) [f](https://x.example/y)";
    let dead = dead_links(&page, text);
    assert_eq!(dead.len(), 3, "{dead:?}");
    let headings = anchors("# One `two`, three\n\n```sh\n# no heading\n```\n\n## Four\n\n## Four\n");
    assert_eq!(headings, ["one-two-three", "four", "four-1"].map(str::to_owned).into());
    let names = dead_names(&page, &["docs", "decisions"].map(|folder| format!("see {folder}/none.md")).join(" or "));
    assert_eq!(names.len(), 2, "{names:?}");
}

/// The pages that say where something stands in the code.
#[test]
fn files_of_the_code_are_where_pages_say() {
    let mut all = Vec::new();
    files(&root(), &mut all);
    let paths: Vec<String> =
        all.iter().map(|(path, _)| format!("/{}", path.strip_prefix(root()).unwrap().display())).collect();
    let mut missing = BTreeSet::new();
    for page in ["docs/architecture.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        for event in events(&text) {
            let Event::Code(name) = event else { continue };
            let is_place = (name.ends_with(".rs") || name.ends_with('/')) && !name.contains([' ', '*', '{', '<']);
            let is_built =
                name.starts_with('.') || name.split('/').next().is_some_and(|first| NOT_OURS.contains(&first));
            let is_there =
                |path: &String| path.contains(&format!("/{name}")) && (name.ends_with('/') || path.ends_with(&*name));
            if is_place && !is_built && !paths.iter().any(is_there) {
                missing.insert(format!("{page}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "no such file or folder: {missing:#?}");
}

/// What an operator is told to look at is counted.
#[test]
fn the_way_to_production_names_counters_that_there_are() {
    let page = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let (production, metrics) = (page("production.md"), page("operate.md"));
    let words = production.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let counters: BTreeSet<&str> =
        words.filter(|word| word.starts_with("idempotency_") && word.ends_with("_total")).collect();
    assert!(counters.len() > 5, "{counters:?}");
    let unknown: Vec<_> = counters.iter().filter(|name| !metrics.contains(&format!("`{name}`"))).collect();
    assert!(unknown.is_empty(), "docs/operate.md has no {unknown:?}");
}
