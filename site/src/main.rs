//! Builds the site from `docs/`: `cargo run -- REPOSITORY TARGET`.
//!
//! | module | subject |
//! |---|---|
//! | `navigation` | `docs/SUMMARY.md`: which pages the site has |
//! | `pages` | a page as mdBook gets it: its links lead to pages of the site, or to copies of files |
//! | `sources` | copies of the files and folders that pages link to |
//! | `diagrams` | pictures of the diagrams that pages have as text |
//! | `build` | all of it, and mdBook |
//! | `html` | the tags of a built page |
//! | `check` | the built site: links, anchors, nothing from another host |

mod build;
mod check;
mod diagrams;
mod html;
mod navigation;
mod pages;
mod paths;
mod sources;
#[cfg(test)]
mod tests;

use anyhow::{Result, bail};
use std::path::Path;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [repository, target] = arguments.as_slice() else { bail!("usage: edge-idempotency-site REPOSITORY TARGET") };
    let (repository, target) = (Path::new(repository), Path::new(target));
    build::site(repository, target)?;
    let checked = check::site(target)?;
    println!("{}: {} pages, {} links", target.display(), checked.pages, checked.links);
    Ok(())
}
