//! References of directives, in the one form that the run time has: fastest dimension first, nodes from 0, bounds inclusive.

use super::{grouped, long, Translator};
use crate::ast::Expr;
use crate::directive::*;
use crate::names::Set;
use crate::source::{Problem, Result};

/// What all executing nodes are.
pub(super) const EXECUTING: &str = "(kxmp_ref){0, 0, {{0}}}";

impl Translator<'_, '_> {
    /// What a reference names; how many subscripts it has is checked.
    pub(super) fn set_of(&self, reference: &Reference) -> Result<Set> {
        let name = self.slice(reference.name);
        let Some(set) = self.scopes.set(name) else {
            return Err(self.undefined(reference.name, "nodes or template"));
        };
        if let Some(subs) = &reference.subs {
            if subs.list.len() != set.dims() {
                let what = match set {
                    Set::Nodes(_) => "nodes",
                    Set::Template(_) => "template",
                };
                return Err(Problem::new(
                    reference.span.start,
                    format!(
                        "{what} `{name}` has {} dimensions, but {} subscripts are given",
                        set.dims(),
                        subs.list.len()
                    ),
                ));
            }
        }
        Ok(set)
    }

    /// A reference as C text.
    pub(super) fn reference(&mut self, reference: &Reference) -> Result<String> {
        self.reference_with(reference, &|_| None)
    }

    /// `given` may say what stands for an axis.
    pub(super) fn reference_with(
        &mut self,
        reference: &Reference,
        given: &dyn Fn(usize) -> Option<&'static str>,
    ) -> Result<String> {
        let set = self.set_of(reference)?;
        let Some(subs) = &reference.subs else {
            return Ok(format!("(kxmp_ref){{{}, 0, {{{{0}}}}}}", set.variable()));
        };
        let mut list = Vec::new();
        for (axis, sub) in subs.fastest_first().into_iter().enumerate() {
            list.push(match given(axis) {
                Some(text) => text.to_owned(),
                None => self.subscript(sub, subs.notation, &set, axis)?,
            });
        }
        Ok(format!("(kxmp_ref){{{}, {}, {{{}}}}}", set.variable(), list.len(), list.join(", ")))
    }

    pub(super) fn optional_reference(&mut self, reference: Option<&Reference>) -> Result<String> {
        reference.map_or_else(|| Ok(EXECUTING.to_owned()), |reference| self.reference(reference))
    }

    fn subscript(&mut self, sub: &Subscript, notation: Notation, set: &Set, axis: usize) -> Result<String> {
        let is_nodes = matches!(set, Set::Nodes(_));
        Ok(match &sub.kind {
            SubscriptKind::Star => "KXMP_ANY".into(),
            SubscriptKind::Range(None, None, None) => "KXMP_ALL".into(),
            SubscriptKind::At(at) => format!("KXMP_AT({})", self.position(at, notation, is_nodes)?),
            SubscriptKind::Range(first, second, third) => {
                let step = match third {
                    Some(step) => long(&self.value(step)?),
                    None => "1".into(),
                };
                match notation {
                    Notation::Round => {
                        let lo = self.end(first.as_ref(), is_nodes, "KXMP_FROM")?;
                        let hi = self.end(second.as_ref(), is_nodes, "KXMP_TO")?;
                        format!("KXMP_RANGE({lo}, {hi}, {step})")
                    }
                    Notation::Square => {
                        let lower = match set {
                            Set::Nodes(_) => "0".to_owned(),
                            Set::Template(t) => {
                                t.lower.borrow().get(axis).cloned().flatten().unwrap_or_else(|| "0".into())
                            }
                        };
                        let lo = first.as_ref().map(|lo| self.value(lo)).transpose()?;
                        let Some(length) = second else {
                            let lo = lo.map_or_else(|| "KXMP_FROM".into(), |lo| long(&lo));
                            return Ok(format!("KXMP_RANGE({lo}, KXMP_TO, {step})"));
                        };
                        let lo = long(&lo.unwrap_or(lower));
                        let length = long(&self.value(length)?);
                        let hi = match step.as_str() {
                            "1" => format!("{lo} + {length} - 1"),
                            _ => format!("{lo} + ({length} - 1) * {step}"),
                        };
                        format!("KXMP_RANGE({lo}, {hi}, {step})")
                    }
                }
            }
        })
    }

    fn position(&mut self, at: &Expr, notation: Notation, is_nodes: bool) -> Result<String> {
        let value = long(&self.value(at)?);
        Ok(match notation {
            Notation::Round if is_nodes => format!("{value} - 1"),
            _ => value,
        })
    }

    fn end(&mut self, end: Option<&Expr>, is_nodes: bool, open: &str) -> Result<String> {
        end.map_or_else(|| Ok(open.to_owned()), |end| self.position(end, Notation::Round, is_nodes))
    }

    /// Bounds of a template, fastest first; None where they are fixed later.
    pub(super) fn template_bounds(&mut self, subs: &Subs) -> Result<Option<Vec<(String, String)>>> {
        let open =
            subs.list.iter().filter(|sub| matches!(sub.kind, SubscriptKind::Range(None, None, None))).count();
        if open == subs.list.len() {
            return Ok(None);
        }
        let mut bounds = Vec::new();
        for sub in subs.fastest_first() {
            bounds.push(match &sub.kind {
                SubscriptKind::At(size) => {
                    let size = long(&self.value(size)?);
                    match subs.notation {
                        Notation::Round => ("1".to_owned(), size),
                        Notation::Square => ("0".to_owned(), format!("{size} - 1")),
                    }
                }
                SubscriptKind::Range(Some(lo), Some(second), None) => {
                    let lo = grouped(&self.value(lo)?);
                    let second = grouped(&self.value(second)?);
                    let hi = match subs.notation {
                        Notation::Round => long(&second),
                        Notation::Square => format!("{} + {} - 1", long(&lo), long(&second)),
                    };
                    (lo, hi)
                }
                _ => {
                    return Err(Problem::new(
                        sub.span.start,
                        "a template has a size, `t[100]`, or bounds, `t(0:99)`, in each dimension, or `:` in all of them",
                    ))
                }
            });
        }
        Ok(Some(bounds))
    }

    /// Formats as C text, fastest first.
    pub(super) fn formats(&mut self, formats: &Formats) -> Result<String> {
        let mut list = Vec::new();
        for format in formats.fastest_first() {
            let width = |translator: &mut Self, width: &Option<Expr>| {
                width.as_ref().map_or_else(
                    || Ok("0".to_owned()),
                    |width| translator.value(width).map(|text| long(&text)),
                )
            };
            list.push(match format {
                Format::None => "{KXMP_NONE, 0, 0, 0}".to_owned(),
                Format::Block(n) => format!("{{KXMP_BLOCK, {}, 0, 0}}", width(self, n)?),
                Format::Cyclic(n) => format!("{{KXMP_CYCLIC, {}, 0, 0}}", width(self, n)?),
                Format::Gblock(None) => "{KXMP_GBLOCK, 0, 0, 0}".to_owned(),
                Format::Gblock(Some(map)) => {
                    let map = grouped(&self.value(map)?);
                    format!("{{KXMP_GBLOCK, 0, {map}, sizeof({map}[0])}}")
                }
            });
        }
        Ok(format!("(const kxmp_format[]){{{}}}", list.join(", ")))
    }
}
