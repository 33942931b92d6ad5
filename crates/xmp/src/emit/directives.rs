//! Directives that stand by themselves.

use super::expressions::{bare, Chain, Step};
use super::{grouped, long, longs, Translator};
use crate::ast::{Expr, ExprKind, Sub};
use crate::directive::*;
use crate::names::{Array, Shadow, Shape};
use crate::source::{Problem, Result, Span};
use std::rc::Rc;

/// Memory of this node that a variable of a directive names.
pub(super) struct Memory {
    pub(super) pointer: String,
    /// An expression of the type of an element.
    pub(super) element: String,
    pub(super) count: String,
}

impl Translator<'_, '_> {
    /// The text of a directive that no statement follows.
    pub(super) fn standalone(&mut self, index: usize, at: usize) -> Result<String> {
        if let Some((declared, calls)) = self.declarative(index, at)? {
            return Ok(format!("{declared}{calls}").trim_end().to_owned());
        }
        let Some(directive) = self.directive(index) else { return Ok(String::new()) };
        let place = self.at(at);
        match &*directive {
            Directive::TemplateFix { template, formats } => {
                self.template_fix(&place, template, formats.as_ref())
            }
            Directive::Halo(kind, halo) => self.halo(&place, *kind, halo),
            Directive::Barrier(on) => {
                let on = self.optional_reference(on.as_ref())?;
                Ok(format!("kxmp_barrier({place}, {on});"))
            }
            Directive::Reduction { reduction, on, id } => {
                self.reduction(&place, reduction, on.as_ref(), id.as_ref())
            }
            Directive::Bcast { variables, from, on, id } => {
                self.bcast(&place, variables, from.as_ref(), on.as_ref(), id.as_ref())
            }
            Directive::WaitAsync { ids, on } => {
                let mut list = Vec::new();
                for id in ids {
                    list.push(self.value(id)?);
                }
                let on = self.optional_reference(on.as_ref())?;
                Ok(format!("kxmp_wait_async({place}, {}, {}, {on});", list.len(), longs(&list)))
            }
            Directive::Post { to, tag } => {
                let to = self.reference(to)?;
                let tag = long(&self.value(tag)?);
                Ok(format!("kxmp_post({place}, {to}, {tag});"))
            }
            Directive::Wait { from, tag } => {
                let from = match from {
                    Some(from) => format!("&{}", self.reference(from)?),
                    None => "0".into(),
                };
                let tag = match tag {
                    Some(tag) => long(&self.value(tag)?),
                    None => "KXMP_NO_TAG".into(),
                };
                Ok(format!("kxmp_wait({place}, {from}, {tag});"))
            }
            Directive::Lock { unlock, object, acquired, status } => {
                self.lock(&place, *unlock, object, acquired.as_ref(), status.as_ref())
            }
            Directive::Sync(function) => Ok(format!("{{ extern void {function}(int *); {function}(0); }}")),
            Directive::Loop(_) => Err(Problem::new(at, "a loop directive needs a `for` statement behind it")),
            Directive::Gmove { .. } | Directive::Array(_) => {
                Err(Problem::new(at, "this directive needs an assignment behind it"))
            }
            Directive::Task { .. } | Directive::Tasks => {
                Err(Problem::new(at, "this directive needs a statement behind it"))
            }
            _ => Ok(String::new()),
        }
    }

    fn template_fix(
        &mut self,
        place: &str,
        reference: &Reference,
        formats: Option<&Formats>,
    ) -> Result<String> {
        let set = self.set_of(reference)?;
        let formats = match formats {
            Some(formats) => self.formats(formats)?,
            None => "0".into(),
        };
        let bounds = match &reference.subs {
            Some(subs) => self.template_bounds(subs)?,
            None => None,
        };
        let (lo, hi) = bounds.map_or_else(|| ("0".into(), "0".into()), |bounds| self.bounds_text(&bounds));
        Ok(format!("kxmp_template_fix({place}, {}, {}, {formats}, {lo}, {hi});", set.variable(), set.dims()))
    }

    pub(super) fn id(&mut self, id: Option<&Expr>) -> Result<String> {
        id.map_or_else(|| Ok("KXMP_SYNC".into()), |id| self.value(id).map(|text| long(&text)))
    }

    pub(super) fn array_named(&self, name: Span, what: &str) -> Result<Rc<Array>> {
        let text = self.slice(name);
        self.scopes.var(text).and_then(|var| var.distributed()).ok_or_else(|| {
            let message = match self.scopes.var(text) {
                Some(_) => format!("`{text}` is not aligned: {what} needs a distributed array"),
                None => format!(
                    "`{text}` is not declared: {what} needs a distributed array{}",
                    self.scopes.near_var(text)
                ),
            };
            Problem::new(name.start, message)
        })
    }

    fn halo(&mut self, place: &str, kind: HaloKind, halo: &Halo) -> Result<String> {
        let function = match kind {
            HaloKind::Reflect => "kxmp_reflect",
            HaloKind::ReduceShadow => "kxmp_reduce_shadow",
            HaloKind::Init => "kxmp_reflect_init",
            HaloKind::Do => "kxmp_reflect_do",
        };
        let id = self.id(halo.id.as_ref())?;
        let orthogonal = if halo.orthogonal { "KXMP_ORTHOGONAL" } else { "KXMP_CORNERS" };
        let mut out = String::new();
        for name in &halo.arrays {
            let array = self.array_named(*name, &function[5..])?;
            let widths = match &halo.widths {
                Some(widths) => self.widths(*name, &array, widths)?,
                None => "0".into(),
            };
            if !array.has_shadow.get() {
                return Err(Problem::new(
                    name.start,
                    format!(
                        "`{}` has no shadow: declare one, `#pragma xmp shadow {0}{}`",
                        array.name,
                        "[1]".repeat(array.dims())
                    ),
                ));
            }
            let descriptor = array.descriptor();
            out.push_str(&match kind {
                HaloKind::Init => format!("{function}({place}, &{descriptor}, {widths}, {orthogonal}); "),
                HaloKind::Do => format!("{function}({place}, &{descriptor}, {id}); "),
                _ => format!("{function}({place}, &{descriptor}, {widths}, {orthogonal}, {id}); "),
            });
        }
        Ok(out.trim_end().to_owned())
    }

    fn widths(&mut self, name: Span, array: &Array, widths: &[Width]) -> Result<String> {
        if widths.len() != array.dims() {
            return Err(Problem::new(
                name.start,
                format!(
                    "`{}` has {} dimensions, but {} widths are given",
                    array.name,
                    array.dims(),
                    widths.len()
                ),
            ));
        }
        let mut list = Vec::new();
        for (dim, width) in widths.iter().enumerate() {
            let shadow = array.shadow.borrow().get(dim).cloned().unwrap_or(Shadow::None);
            if width.periodic && shadow == Shadow::Full {
                return Err(Problem::new(
                    name.start,
                    format!(
                        "dimension {dim} of `{}` has a full shadow, which cannot be periodic",
                        array.name
                    ),
                ));
            }
            let Some((low, high)) = &width.sides else {
                list.push("{-1, -1, 0}".to_owned());
                continue;
            };
            let lo = self.value(low)?;
            let hi = match high {
                Some(high) => self.value(high)?,
                None => lo.clone(),
            };
            let at = low.span.start;
            match &shadow {
                Shadow::None => {
                    self.fits(at, array, dim, &lo, "0")?;
                    self.fits(at, array, dim, &hi, "0")?;
                }
                Shadow::Widths(most_lo, most_hi) => {
                    self.fits(at, array, dim, &lo, most_lo)?;
                    self.fits(at, array, dim, &hi, most_hi)?;
                }
                Shadow::Full => {}
            }
            list.push(format!("{{{lo}, {hi}, {}}}", i32::from(width.periodic)));
        }
        Ok(format!("(const kxmp_width[]){{{}}}", list.join(", ")))
    }

    fn fits(&self, at: usize, array: &Array, dim: usize, asked: &str, most: &str) -> Result<()> {
        match (asked.parse::<i64>(), most.parse::<i64>()) {
            (Ok(asked), Ok(most)) if asked > most => Err(Problem::new(
                at,
                format!(
                    "width {asked} is larger than the shadow of dimension {dim} of `{}`, which is {most}",
                    array.name
                ),
            )),
            _ => Ok(()),
        }
    }

    fn reduction(
        &mut self,
        place: &str,
        reduction: &Reduction,
        on: Option<&Reference>,
        id: Option<&Expr>,
    ) -> Result<String> {
        let on = self.optional_reference(on)?;
        let id = self.id(id)?;
        let operation = reduction.operation.constant();
        let mut out = String::new();
        for (variable, _) in &reduction.variables {
            let whole = self.chain(variable).filter(is_whole);
            out.push_str(&match whole {
                Some(chain) => {
                    format!(
                        "kxmp_reduction_array({place}, {on}, {operation}, &{}, {id}); ",
                        chain.array.descriptor()
                    )
                }
                None => {
                    format!("kxmp_reduction({place}, {on}, {operation}, {}, {id}); ", self.reduced(variable)?)
                }
            });
        }
        Ok(out.trim_end().to_owned())
    }

    /// Type, address and count of a variable of a reduction.
    pub(super) fn reduced(&mut self, variable: &Expr) -> Result<String> {
        let memory = self.memory(variable, "a reduction")?;
        Ok(format!("KXMP_TYPE_OF({}), {}, {}", memory.element, memory.pointer, memory.count))
    }

    fn bcast(
        &mut self,
        place: &str,
        variables: &[Expr],
        from: Option<&Reference>,
        on: Option<&Reference>,
        id: Option<&Expr>,
    ) -> Result<String> {
        let from = match from {
            Some(from) => format!("&{}", self.reference(from)?),
            None => "0".into(),
        };
        let on = self.optional_reference(on)?;
        let id = self.id(id)?;
        let mut out = String::new();
        for variable in variables {
            if let Some(chain) = self.chain(variable).filter(is_whole) {
                let array = chain.array.descriptor();
                out.push_str(&format!("kxmp_bcast_array({place}, {on}, {from}, &{array}, {id}); "));
                continue;
            }
            let memory = self.memory(variable, "bcast")?;
            let bytes = match memory.count.as_str() {
                "1" => format!("sizeof({})", memory.element),
                count => format!("{} * sizeof({})", grouped(count), memory.element),
            };
            out.push_str(&format!("kxmp_bcast({place}, {on}, {from}, {}, {bytes}, {id}); ", memory.pointer));
        }
        Ok(out.trim_end().to_owned())
    }

    /// What a variable of a directive is in the memory of this node.
    pub(super) fn memory(&mut self, variable: &Expr, what: &str) -> Result<Memory> {
        let variable = bare(variable);
        let at = variable.span.start;
        match &variable.kind {
            ExprKind::Name => self.named_memory(variable, what),
            // All of it.
            ExprKind::Index(..) if self.is_all(variable) => {
                self.named_memory(super::sides::split(variable).0, what)
            }
            ExprKind::Index(..) if super::statements::has_section(variable) => {
                self.section_memory(variable, what)
            }
            ExprKind::Index(..) | ExprKind::Member(..) | ExprKind::Unary(..) => {
                self.part_of_memory(variable, what)
            }
            _ => Err(Problem::new(at, format!("{what} takes variables, not expressions"))),
        }
    }

    /// An element, a row, a member.
    fn part_of_memory(&mut self, variable: &Expr, what: &str) -> Result<Memory> {
        let mut is_element = false;
        if let Some(chain) = self.chain(variable) {
            if chain.steps.len() < chain.array.dims() {
                return self.part_memory(variable, &chain, what);
            }
            is_element = true;
        }
        let text = self.value(variable)?;
        let pointer = format!("(void *)&{}", grouped(&text));
        let (base, subs) = super::sides::split(variable);
        let name = bare(base);
        let var = self.scopes.var(self.slice(name.span)).filter(|_| matches!(name.kind, ExprKind::Name));
        let is_array = |var: &crate::names::Var| var.dims() == var.shape.len() && subs.len() <= var.dims();
        if let Some(var) = var.filter(|var| var.is_plain() && is_array(var)) {
            let rest = var.dims() - subs.len();
            if rest > 0 {
                let element = format!("{text}{}", "[0]".repeat(rest));
                let count = format!("(long)(sizeof({text}) / sizeof({element}))");
                return Ok(Memory { pointer, element, count });
            }
            is_element = true;
        }
        if is_element {
            return Ok(Memory { pointer, element: text, count: "1".into() });
        }
        // Only C knows whether it is an array.
        let element = format!("KXMP_FIRST({text})");
        let count = format!("(long)(sizeof({text}) / sizeof({element}))");
        Ok(Memory { pointer, element, count })
    }

    fn is_all(&self, variable: &Expr) -> bool {
        self.chain(variable).is_some_and(|chain| is_whole(&chain))
    }

    fn named_memory(&mut self, variable: &Expr, what: &str) -> Result<Memory> {
        let name = self.slice(variable.span).to_owned();
        let Some(var) = self.scopes.var(&name) else {
            self.check_declared(variable.span, Span::default())?;
            return Ok(Memory { pointer: format!("(void *)&{name}"), element: name, count: "1".into() });
        };
        if let Some(array) = var.distributed() {
            let descriptor = array.descriptor();
            let extents: Vec<String> = (0..array.dims()).map(|dim| grouped(&array.extent(dim))).collect();
            return Ok(Memory {
                pointer: format!("{descriptor}.base"),
                element: format!("*({} *)0", array.element),
                count: format!("({descriptor}.base ? {} : 0)", extents.join(" * ")),
            });
        }
        let text = self.value(variable)?;
        if var.is_pointer() {
            let sizes: Option<Vec<String>> = var
                .shape
                .iter()
                .map(|shape| match shape {
                    Shape::Array(size) => size.clone().map(|size| grouped(&size)),
                    _ => None,
                })
                .collect();
            return match sizes {
                Some(sizes) if !sizes.is_empty() => Ok(Memory {
                    pointer: format!("(void *){text}"),
                    element: format!("{text}{}", "[0]".repeat(sizes.len())),
                    count: sizes.join(" * "),
                }),
                _ => Err(Problem::new(
                    variable.span.start,
                    format!(
                        "`{name}` is a pointer, and {what} must know how much is meant: write `{name}[0:n]`"
                    ),
                )),
            };
        }
        let dims = var.dims();
        let element = format!("{text}{}", "[0]".repeat(dims));
        let count = match dims {
            0 => "1".to_owned(),
            _ => format!("(long)(sizeof({text}) / sizeof({element}))"),
        };
        let pointer = if dims == 0 {
            format!("(void *)&{}", grouped(&text))
        } else {
            format!("(void *){}", grouped(&text))
        };
        Ok(Memory { pointer, element, count })
    }

    /// A section of a distributed array, in dimensions that every node has as a whole.
    fn part_memory(&mut self, variable: &Expr, chain: &Chain<'_>, what: &str) -> Result<Memory> {
        let array = &chain.array;
        let wrong = |message: String| Err(Problem::new(variable.span.start, message));
        let mut count: Vec<String> = Vec::new();
        for dim in 0..array.dims() {
            let section = match chain.steps.get(dim) {
                Some(Step::Sub(Sub::Section(_, first, length, step))) => (first, length, step),
                None => (&None, &None, &None),
                Some(_) if count.is_empty() => continue,
                Some(_) => {
                    return wrong(format!(
                        "{what} takes a section only if its elements lie one behind the other"
                    ))
                }
            };
            let has_shadow = array.shadow.borrow().get(dim).is_some_and(|one| *one != Shadow::None);
            if array.align.get(dim).is_none_or(Option::is_some) || has_shadow {
                return wrong(format!(
                    "dimension {dim} of `{}` is distributed, and {what} of a section of it is not possible: take the whole array, or a gmove",
                    array.name
                ));
            }
            let all =
                array.sizes.get(dim).cloned().flatten().map_or_else(|| array.extent(dim), |size| long(&size));
            count.push(match section {
                (_, _, Some(_)) => {
                    return wrong(format!(
                        "{what} takes a section only if its elements lie one behind the other"
                    ))
                }
                (Some(_), _, _) | (_, Some(_), _) if !count.is_empty() => {
                    return wrong(format!(
                        "{what} takes a section only if its elements lie one behind the other"
                    ))
                }
                (_, Some(length), _) => grouped(&long(&self.value(length)?)),
                (Some(first), None, _) => format!("({all} - {})", grouped(&self.value(first)?)),
                (None, None, _) => grouped(&all),
            });
        }
        let before = self.section.replace(vec!["0".to_owned(); 7]);
        let text = self.value(variable);
        self.section = before;
        let text = text? + &"[0]".repeat(array.dims().saturating_sub(chain.steps.len()));
        Ok(Memory { pointer: format!("(void *)&{text}"), element: text, count: count.join(" * ") })
    }

    /// `v[lo:len]`, and whole dimensions behind.
    fn section_memory(&mut self, variable: &Expr, what: &str) -> Result<Memory> {
        if let Some(chain) = self.chain(variable) {
            return self.part_memory(variable, &chain, what);
        }
        let mut subs = Vec::new();
        let mut base = variable;
        while let ExprKind::Index(inner, sub) = &base.kind {
            subs.insert(0, &**sub);
            base = inner;
        }
        let mut text = self.value(base)?;
        let mut count: Vec<String> = Vec::new();
        for sub in subs {
            match sub {
                Sub::At(at) if count.is_empty() => text.push_str(&format!("[{}]", self.value(at)?)),
                Sub::Section(_, first, length, step)
                    if step.is_none() && (count.is_empty() || (first.is_none() && length.is_none())) =>
                {
                    let first = match first {
                        Some(first) => self.value(first)?,
                        None => "0".into(),
                    };
                    let all = format!("(long)(sizeof({text}) / sizeof({text}[0]))");
                    count.push(match length {
                        Some(length) => grouped(&long(&self.value(length)?)),
                        None if first == "0" => all,
                        None => format!("({all} - {})", grouped(&first)),
                    });
                    text.push_str(&format!("[{first}]"));
                }
                _ => {
                    return Err(Problem::new(
                        variable.span.start,
                        format!("{what} takes a section only if its elements lie one behind the other"),
                    ))
                }
            }
        }
        Ok(Memory { pointer: format!("(void *)&{text}"), element: text, count: count.join(" * ") })
    }
}

/// `a[:][:]`
fn is_whole(chain: &Chain<'_>) -> bool {
    chain.steps.iter().all(|step| matches!(step, Step::Sub(Sub::Section(_, None, None, None))))
}
