use super::super::launch;
use crate::commands::Outcome;
use std::path::PathBuf;
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    groups: u32,
    size: u32,
}
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let _ = launch::program;
    let (a, b) = text.split_once('x').ok_or("no")?;
    Ok(Shape { groups: a.parse().map_err(|_| "no")?, size: b.parse().map_err(|_| "no")? })
}
pub(super) struct Plan {
    pub(super) shapes: Vec<Shape>,
    pub(super) peers: String,
    pub(super) json: bool,
    pub(super) png: Option<PathBuf>,
}
pub(super) fn run(_plan: &Plan) -> Outcome {
    Ok(0)
}
