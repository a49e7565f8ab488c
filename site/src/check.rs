//! The built site: every link and every anchor leads somewhere, nothing is fetched from another host, and pictures have a text.

use crate::html::{self, Tag};
use crate::paths;
use anyhow::{Context as _, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Hosts that scripts may name: those of XML's namespaces, and that of mdBook's button which runs Rust, and is switched off.
const NAMED: [&str; 2] = ["www.w3.org", "play.rust-lang.org"];

/// How much was checked.
pub struct Checked {
    pub pages: usize,
    pub links: usize,
}

/// A page of the site.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    /// Links of the text
    links: Vec<String>,
    /// What the browser fetches for the page
    fetched: Vec<String>,
    faults: Vec<String>,
}

/// Checks the site in a folder.
pub fn site(folder: &Path) -> Result<Checked> {
    let mut files = BTreeMap::new();
    read(folder, "", &mut files)?;
    let pages: BTreeMap<&str, Page> = files
        .iter()
        .filter(|(name, _)| name.ends_with(".html"))
        .map(|(name, content)| (name.as_str(), page(name, &String::from_utf8_lossy(content))))
        .collect();

    let mut faults = Vec::new();
    let mut links = 0;
    for (name, page) in &pages {
        let mut fault = |what: String| faults.push(format!("{name}: {what}"));
        page.faults.iter().for_each(|what| fault(what.clone()));
        for link in &page.fetched {
            match target(name, link) {
                None => fault(format!("fetches {link} from another host")),
                Some((file, _)) if !files.contains_key(&file) => fault(format!("fetches {link}, which is not there")),
                Some(_) => {}
            }
        }
        for link in &page.links {
            links += 1;
            let Some((file, anchor)) = target(name, link) else { continue };
            let anchors = pages.get(file.as_str()).map(|page| &page.anchors);
            if !files.contains_key(&file) {
                fault(format!("{link} leads to no file of the site"));
            } else if !anchor.is_empty() && anchors.is_some_and(|anchors| !anchors.contains(&anchor)) {
                fault(format!("{link}: {file} has no such anchor"));
            }
        }
    }
    for (name, content) in &files {
        let text = String::from_utf8_lossy(content);
        if name.ends_with(".css") {
            faults
                .extend(fetched_by_style(&text).map(|address| format!("{name}: fetches {address} from another host")));
        } else if name.ends_with(".js") && !name.starts_with("docs/playground/") && !name.starts_with("searchindex") {
            faults.extend(fetched_by_script(&text).map(|address| format!("{name}: may fetch {address}")));
        }
    }
    ensure!(faults.is_empty(), "the site has faults:\n{}", faults.join("\n"));
    Ok(Checked { pages: pages.len(), links })
}

fn read(folder: &Path, below: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(folder.join(below)).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(folder, &format!("{name}/"), files)?;
        } else {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(())
}

/// What browsers fetch by themselves.
const FETCHED: [&str; 9] = ["script", "link", "img", "iframe", "source", "video", "audio", "object", "embed"];

fn page(name: &str, html: &str) -> Page {
    let mut page = Page::default();
    let tags = html::tags(html);
    for tag in &tags {
        let own = |name| tag.attribute(name).map(str::to_owned);
        page.anchors.extend(own("id"));
        if tag.name == "a" {
            page.links.extend(own("href"));
        } else if FETCHED.contains(&&*tag.name) {
            page.fetched.extend(["src", "href", "data"].into_iter().filter_map(own));
        }
        if tag.name == "img" && own("alt").is_none_or(|text| text.is_empty()) {
            page.faults.push(format!("{:?} has no text (`alt`)", own("src").unwrap_or_default()));
        }
    }
    let has = |wanted: fn(&Tag) -> bool| tags.iter().any(wanted);
    // mdBook's frame with the navigation, for browsers without scripts, is no page of its own.
    if name != "toc.html" && !has(|tag| tag.name == "title") {
        page.faults.push("has no title".to_owned());
    }
    if !has(|tag| tag.name == "html" && tag.attribute("lang").is_some()) {
        page.faults.push("does not tell its language".to_owned());
    }
    if !has(|tag| tag.name == "meta" && tag.attribute("name") == Some("viewport")) {
        page.faults.push("has no viewport".to_owned());
    }
    page
}

/// The file and the anchor that a link of a page leads to; `None` on another host.
fn target(page: &str, link: &str) -> Option<(String, String)> {
    if link.contains("://") || link.starts_with("//") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file = file.split_once('?').map_or(file, |(file, _)| file);
    let file = match file {
        "" => page.to_owned(),
        // A server gives the index of a folder.
        folder if folder.ends_with('/') => {
            paths::join(paths::folder(page), &format!("{folder}index.html")).unwrap_or_default()
        }
        file => paths::join(paths::folder(page), file).unwrap_or_default(),
    };
    Some((file, anchor.to_owned()))
}

/// Addresses of other hosts in a style sheet.
fn fetched_by_style(text: &str) -> impl Iterator<Item = String> {
    let urls = text.split("url(").skip(1).filter_map(|rest| rest.split(')').next());
    let imports = text.split("@import").skip(1).filter_map(|rest| rest.split(';').next());
    urls.chain(imports)
        .map(|address| address.trim_matches(['"', '\'', ' ']).to_owned())
        .filter(|address| address.contains("//") && !address.starts_with("data:"))
}

/// Addresses of other hosts in a script, but for those in comments.
fn fetched_by_script(text: &str) -> impl Iterator<Item = String> {
    let quoted = ["\"", "'", "`"].into_iter().flat_map(move |quote| {
        ["https://", "http://", "//"].into_iter().flat_map(move |scheme| {
            let start = format!("{quote}{scheme}");
            text.split(&start)
                .skip(1)
                .filter_map(|rest| rest.split(quote).next())
                .map(move |rest| format!("{scheme}{rest}"))
                .collect::<Vec<_>>()
        })
    });
    quoted.filter(|address| {
        let host = address.split("//").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        host.contains('.')
            && !host.contains(|c: char| !c.is_ascii_alphanumeric() && !"-.:".contains(c))
            && !NAMED.contains(&host)
    })
}
