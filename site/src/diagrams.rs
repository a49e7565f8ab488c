//! Diagrams, which pages have as Mermaid, so that a code host shows them, too.

use anyhow::{Context as _, Result, bail};
use merman::{OperationControl, RenderOutput, RenderRequest, Renderer, SvgRequest};

/// A drawn diagram.
pub struct Diagram {
    pub svg: String,
    /// For those who do not see it
    pub description: String,
}

/// Draws a block of code with its fences. The line `accDescr: …` of Mermaid says what the diagram shows.
pub fn draw(block: &str) -> Result<Diagram> {
    let lines: Vec<&str> = block.lines().filter(|line| !line.trim_start().starts_with("```")).collect();
    let description = lines
        .iter()
        .find_map(|line| line.trim().strip_prefix("accDescr:"))
        .context("a line `accDescr: …` has to say what it shows, for those who do not see it")?;
    let source = lines.join("\n");
    let request = RenderRequest::svg(&source, OperationControl::new(), SvgRequest::default());
    match Renderer::new().render(request)? {
        RenderOutput::Svg(Some(svg)) => {
            Ok(Diagram { svg: svg.svg().to_owned(), description: description.trim().to_owned() })
        }
        _ => bail!("Mermaid has no such diagram"),
    }
}
