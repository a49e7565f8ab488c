//! A page as mdBook gets it. Its links lead to pages of the site, or to copies of files; a diagram is a link to its picture.

use crate::navigation::Navigation;
use crate::{diagrams, paths, sources};
use anyhow::{Context as _, Result, bail, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// What the pages need beside themselves.
#[derive(Default)]
pub struct Needed {
    /// Files and folders of the repository that pages link to
    pub sources: BTreeSet<String>,
    /// Pictures of the repository that pages show
    pub pictures: BTreeSet<(String, String)>,
    /// Drawn diagrams, by their names in the site
    pub diagrams: Vec<(String, String)>,
}

/// The text of the page `source`, which is `staged` in the site.
pub fn page(
    repository: &Path,
    navigation: &Navigation,
    (source, staged): (&str, &str),
    text: &str,
    needed: &mut Needed,
) -> Result<String> {
    let mut changed = String::with_capacity(text.len());
    let mut copied = 0;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let (range, new) = match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) if is_of_repository(&dest_url) => {
                let range = destination(text, range, &dest_url).with_context(|| format!("{source}: {dest_url}"))?;
                let new = link(repository, navigation, (source, staged), &dest_url, needed)
                    .with_context(|| format!("{source}: {dest_url}"))?;
                (range, new)
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) if &*language == "mermaid" => {
                let code = text.get(range.clone()).unwrap_or_default();
                let diagram = diagrams::draw(code).with_context(|| format!("{source}: a diagram"))?;
                let name = format!("diagrams/{}-{}.svg", staged.trim_end_matches(".md"), needed.diagrams.len());
                let from_here = paths::relative(paths::folder(staged), &name);
                needed.diagrams.push((name, diagram.svg));
                (range, format!("![{}]({from_here})\n", diagram.description))
            }
            _ => continue,
        };
        // The picture in a link stands before the link's own address.
        ensure!(range.start >= copied, "{source}: a link in a link's text");
        changed += text.get(copied..range.start).unwrap_or_default();
        changed += &new;
        copied = range.end;
    }
    changed += text.get(copied..).unwrap_or_default();
    Ok(changed)
}

fn is_of_repository(link: &str) -> bool {
    !link.contains("://") && !link.starts_with('#') && !link.starts_with("mailto:")
}

/// Where the address of a link stands in the text.
fn destination(text: &str, link: Range<usize>, address: &str) -> Option<Range<usize>> {
    let found = text.get(link.clone())?.rfind(&format!("]({address}"))? + link.start + "](".len();
    Some(found..found + address.len())
}

fn link(
    repository: &Path,
    navigation: &Navigation,
    (source, staged): (&str, &str),
    link: &str,
    needed: &mut Needed,
) -> Result<String> {
    let (file, anchor) = link.split_once('#').map_or((link, String::new()), |(file, at)| (file, format!("#{at}")));
    let target = paths::join(paths::folder(source), file).context("leads out of the repository")?;
    let here = paths::folder(staged);
    if let Some(page) = navigation.in_site(&target) {
        return Ok(paths::relative(here, page) + &anchor);
    }
    let is_folder = repository.join(&target).is_dir();
    if !is_folder && !repository.join(&target).is_file() {
        bail!("there is no such file");
    }
    if let Some(picture) = target.strip_prefix("docs/").filter(|_| target.ends_with(".png") || target.ends_with(".svg"))
    {
        needed.pictures.insert((target.clone(), picture.to_owned()));
        return Ok(paths::relative(here, picture));
    }
    needed.sources.insert(target.clone());
    Ok(paths::relative(here, &sources::address(&target, is_folder)))
}
