//! Names and what they stand for: variables of C, nodes and templates, by scope.

use crate::near::near;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// What the declaration of a variable adds to its type, from the name outwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// The size as C text, if it is said.
    Array(Option<String>),
    Pointer,
    Function,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    File,
    FileStatic,
    Extern,
    Block,
    BlockStatic,
    Parameter,
}

/// A variable of C.
pub(crate) struct Var {
    pub(crate) name: String,
    /// The words of its type before the name.
    pub(crate) spec: String,
    pub(crate) shape: Vec<Shape>,
    pub(crate) owner: Owner,
    /// How many scopes there were when it was declared.
    pub(crate) depth: usize,
    pub(crate) array: RefCell<Option<Rc<Array>>>,
    pub(crate) coarray: RefCell<Option<Rc<Coarray>>>,
}

impl Var {
    /// The distributed array that it is.
    pub(crate) fn distributed(&self) -> Option<Rc<Array>> {
        self.array.borrow().clone()
    }

    pub(crate) fn coarray(&self) -> Option<Rc<Coarray>> {
        self.coarray.borrow().clone()
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.array.borrow().is_none() && self.coarray.borrow().is_none()
    }

    /// Dimensions that C knows: of an array, not behind a pointer.
    pub(crate) fn dims(&self) -> usize {
        self.shape.iter().take_while(|shape| matches!(shape, Shape::Array(_))).count()
    }

    /// Whether C has a pointer here: also a parameter that is written as an array.
    pub(crate) fn is_pointer(&self) -> bool {
        match self.shape.first() {
            Some(Shape::Pointer) => true,
            Some(Shape::Array(_)) => self.owner == Owner::Parameter,
            _ => false,
        }
    }

    /// The type of an element below the first `dims` dimensions, as C text; None where it cannot be written in front of a name.
    pub(crate) fn element(&self, dims: usize) -> Option<String> {
        let mut text = self.spec.clone();
        for shape in self.shape.iter().skip(dims) {
            match shape {
                Shape::Pointer => text.push_str(" *"),
                _ => return None,
            }
        }
        Some(text)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shadow {
    None,
    Widths(String, String),
    Full,
}

/// A distributed array.
pub(crate) struct Array {
    pub(crate) name: String,
    pub(crate) element: String,
    /// C text; None where it is not said.
    pub(crate) sizes: Vec<Option<String>>,
    pub(crate) template: Rc<Template>,
    /// Axis of the template, fastest first, and the offset; None: collapsed.
    pub(crate) align: Vec<Option<(usize, String)>>,
    pub(crate) shadow: RefCell<Vec<Shadow>>,
    /// A directive has said how wide it is, be it nothing.
    pub(crate) has_shadow: Cell<bool>,
    pub(crate) storage: Owner,
    /// A pointer of C keeps its variable.
    pub(crate) is_pointer: bool,
    /// The sizes and the offsets are the same wherever their texts are.
    pub(crate) is_fixed: bool,
    /// The directive behind which it is made.
    pub(crate) made_at: Cell<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    None,
    Block,
    Gblock,
    Cyclic,
    BlockCyclic,
}

impl Array {
    pub(crate) fn descriptor(&self) -> String {
        format!("kxa_{}", self.name)
    }

    pub(crate) fn dims(&self) -> usize {
        self.sizes.len()
    }

    /// Whether subscripts of this dimension must be turned into local ones.
    pub(crate) fn is_cyclic(&self, dim: usize) -> bool {
        let full = self.shadow.borrow().get(dim) == Some(&Shadow::Full);
        let Some(Some((axis, _))) = self.align.get(dim) else { return false };
        !full && matches!(self.template.layout(*axis), Some(Layout::Cyclic | Layout::BlockCyclic))
    }

    /// How long a dimension of the local part is: a number where that is known, else where it is read.
    pub(crate) fn extent(&self, dim: usize) -> String {
        let is_spread = match self.align.get(dim) {
            Some(Some((axis, _))) => self.template.layout(*axis) != Some(Layout::None),
            _ => false,
        };
        // What xmp_malloc is given counts, not what the pointer is declared with.
        let is_known = !is_spread && !self.is_late();
        let size = self.sizes.get(dim).cloned().flatten().filter(|size| is_number(size) && is_known);
        let shadow = self.shadow.borrow().get(dim).cloned().unwrap_or(Shadow::None);
        match (size, shadow) {
            (Some(size), Shadow::None) => size,
            (Some(size), Shadow::Widths(lo, hi)) if is_number(&lo) && is_number(&hi) => {
                format!("({size}) + ({lo}) + ({hi})")
            }
            _ => format!("{}.map->dim[{dim}].extent", self.descriptor()),
        }
    }

    /// Whether its sizes are those that xmp_malloc is given.
    pub(crate) fn is_late(&self) -> bool {
        self.is_pointer && self.storage != Owner::Parameter
    }

    /// Whether its rows are of a size that C does not take at file scope: the variable is a `void *` then.
    pub(crate) fn is_untyped(&self) -> bool {
        let is_outside = matches!(self.storage, Owner::File | Owner::FileStatic | Owner::Extern);
        is_outside && self.is_late() && !self.sizes.iter().skip(1).flatten().all(|size| is_number(size))
    }

    /// The sizes behind the first, as they are declared.
    pub(crate) fn row(&self) -> String {
        self.sizes.iter().skip(1).map(|size| format!("[{}]", size.clone().unwrap_or_default())).collect()
    }

    /// Arrays with the same key have the same leading dimensions; None where the text does not show that.
    pub(crate) fn key(&self) -> Option<String> {
        let shadow = self.shadow.borrow();
        let has_numbers = shadow.iter().all(|one| match one {
            Shadow::Widths(lo, hi) => is_number(lo) && is_number(hi),
            _ => true,
        });
        (self.is_fixed && has_numbers && !self.is_late())
            .then(|| format!("{:p} {:?} {shadow:?} {:?}", Rc::as_ptr(&self.template), self.align, self.sizes))
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || b"+-*() ".contains(&b))
}

pub(crate) struct Coarray {
    pub(crate) name: String,
    /// What its C names begin with: of a block it lies at file scope under another name.
    pub(crate) prefix: String,
    pub(crate) element: String,
    pub(crate) sizes: Vec<String>,
    /// None is the star.
    pub(crate) codims: Vec<Option<String>>,
    pub(crate) on: RefCell<Option<String>>,
    /// Whether the sizes can stand in a declaration of file scope.
    pub(crate) constant: bool,
    pub(crate) storage: Owner,
}

impl Coarray {
    pub(crate) fn handle(&self) -> String {
        format!("kxc_{}{}", self.prefix, self.name)
    }

    pub(crate) fn memory(&self) -> String {
        format!("kxm_{}{}", self.prefix, self.name)
    }

    /// `[10][20]`
    pub(crate) fn brackets(&self) -> String {
        self.sizes.iter().map(|size| format!("[{size}]")).collect()
    }

    /// The own part, as the variable that the user declared.
    pub(crate) fn local(&self) -> String {
        match self.constant {
            true => format!("(*{})", self.memory()),
            false => format!("(*({} (*){}){})", self.element, self.brackets(), self.memory()),
        }
    }
}

pub(crate) struct Nodes {
    pub(crate) name: String,
    pub(crate) dims: usize,
}

pub(crate) struct Template {
    pub(crate) name: String,
    pub(crate) dims: usize,
    /// Lower bounds as C text, fastest first; None: not known yet.
    pub(crate) lower: RefCell<Vec<Option<String>>>,
    /// Fastest first; None: not distributed yet.
    pub(crate) layouts: RefCell<Option<Vec<Layout>>>,
}

impl Template {
    pub(crate) fn layout(&self, axis: usize) -> Option<Layout> {
        self.layouts.borrow().as_ref().and_then(|layouts| layouts.get(axis).copied())
    }
}

/// What a reference can name.
#[derive(Clone)]
pub(crate) enum Set {
    Nodes(Rc<Nodes>),
    Template(Rc<Template>),
}

impl Set {
    pub(crate) fn dims(&self) -> usize {
        match self {
            Set::Nodes(nodes) => nodes.dims,
            Set::Template(template) => template.dims,
        }
    }

    /// The variable of the translated program.
    pub(crate) fn variable(&self) -> String {
        match self {
            Set::Nodes(nodes) => format!("kxn_{}", nodes.name),
            Set::Template(template) => format!("kxt_{}", template.name),
        }
    }
}

#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) vars: HashMap<String, Rc<Var>>,
    pub(crate) sets: HashMap<String, Set>,
}

#[derive(Default)]
pub(crate) struct Scopes {
    pub(crate) list: Vec<Scope>,
}

impl Scopes {
    pub(crate) fn var(&self, name: &str) -> Option<Rc<Var>> {
        self.list.iter().rev().find_map(|scope| scope.vars.get(name)).cloned()
    }

    pub(crate) fn set(&self, name: &str) -> Option<Set> {
        self.list.iter().rev().find_map(|scope| scope.sets.get(name)).cloned()
    }

    pub(crate) fn add_var(&mut self, var: Var) {
        if let Some(scope) = self.list.last_mut() {
            scope.vars.insert(var.name.clone(), Rc::new(var));
        }
    }

    pub(crate) fn add_set(&mut self, name: &str, set: Set) {
        if let Some(scope) = self.list.last_mut() {
            scope.sets.insert(name.to_owned(), set);
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.list.len()
    }

    /// Names of nodes and templates, for advice.
    pub(crate) fn known_sets(&self) -> Vec<String> {
        let mut names: Vec<String> = self.list.iter().flat_map(|scope| scope.sets.keys().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Advice for the name of a variable that is not declared: the nearest one that is.
    pub(crate) fn near_var(&self, wrong: &str) -> String {
        let known = self.list.iter().flat_map(|scope| scope.vars.keys().map(String::as_str));
        near(wrong, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
    }
}
