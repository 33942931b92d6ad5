//! Runs the instructions of one rank, lazily: each call gives the next operation.

use super::code::{Act, Builtin, Code, Expr, Instruction, OrderBy, Place, Value};
use super::evaluate::{mix, Evaluator, Surroundings, Wrong};
use super::Program;
use crate::program::{Gap, Handle, Op, Order, Script, Source, View, Wait};
use crate::source::{Mistake, Span};
use crate::Time;

/// Instructions between two operations: a loop that does nothing else would never end.
const MOST_INSTRUCTIONS: u32 = 1 << 24;
/// Procedures that call each other.
const DEEPEST_CALLS: usize = 1_000;
/// Tags from here on belong to the collectives.
pub(super) const LIBRARY_TAGS: i64 = 4_000_000_000;

/// One rank that runs a program.
pub(super) struct Machine<'a> {
    program: &'a Program,
    state: State,
    /// What must follow the operation before: the wait of a blocking send or receive.
    then: Option<Op>,
    ended: bool,
}

/// What changes while it runs.
struct State {
    rank: u32,
    ranks: u32,
    at: usize,
    globals: Vec<Option<Value>>,
    locals: Vec<Option<Value>>,
    base: usize,
    /// Where to go on, and the base of the caller.
    calls: Vec<(usize, usize)>,
    issued: u64,
    random: u64,
}

/// What an expression sees: the rank's state and the simulation.
struct Around<'a, 'v> {
    state: &'a mut State,
    view: &'a View<'v>,
}

impl Surroundings for Around<'_, '_> {
    fn rank(&self) -> Option<u32> {
        Some(self.state.rank)
    }

    fn ranks(&self) -> u32 {
        self.state.ranks
    }

    fn variable(&self, place: Place) -> Option<Value> {
        match place {
            Place::Global(number) => self.state.globals[number as usize],
            Place::Local(number) => self.state.locals[self.state.base + number as usize],
        }
    }

    fn ask(&mut self, builtin: Builtin, argument: i64) -> Option<Value> {
        Some(match builtin {
            Builtin::Now => Value::Time(i64::try_from(self.view.now().as_ps()).ok()?),
            Builtin::Flag => Value::Number(self.view.flag(argument.try_into().ok()?) as i64),
            Builtin::Done => Value::Number(self.view.is_complete(Handle(argument as u64)) as i64),
            Builtin::Random => {
                self.state.random = self.state.random.wrapping_add(1);
                Value::Number((mix(mix(self.state.random)) % argument as u64) as i64)
            }
            _ => return None,
        })
    }
}

/// What the end of an instruction means.
enum Step {
    GoOn,
    Do(Op, Option<Op>),
    End,
}

type Ran<T> = Result<T, Wrong>;

impl<'a> Machine<'a> {
    pub(super) fn new(program: &'a Program, rank: u32) -> Machine<'a> {
        let code = &program.code;
        let random = mix(program.seed ^ mix(rank as u64));
        let state = State {
            rank,
            ranks: program.ranks,
            at: code.entry,
            globals: vec![None; code.globals as usize],
            locals: Vec::new(),
            base: 0,
            calls: Vec::new(),
            issued: 0,
            random,
        };
        Machine { program, state, then: None, ended: false }
    }

    fn instruction(&mut self, view: &View<'_>) -> Ran<Step> {
        let code: &'a Code = &self.program.code;
        let instruction = &code.instructions[self.state.at];
        self.state.at += 1;
        let mut running = Running { code, around: Around { state: &mut self.state, view } };
        match instruction {
            Instruction::Set(place, value) => {
                let value = running.value(value)?;
                running.set(*place, value);
            }
            Instruction::Jump(to) => self.state.at = *to,
            Instruction::Unless(condition, to) => {
                if running.number(condition)? == 0 {
                    self.state.at = *to;
                }
            }
            Instruction::Assert(condition, said) => {
                if running.number(condition)? == 0 {
                    let message = said.clone().unwrap_or_else(|| "this does not hold".into());
                    return Err(Wrong { at: condition.at, message });
                }
            }
            Instruction::Call { procedure, arguments, at } => running.call(*procedure, arguments, *at)?,
            Instruction::Return => match self.state.calls.pop() {
                Some((at, base)) => {
                    self.state.locals.truncate(self.state.base);
                    (self.state.at, self.state.base) = (at, base);
                }
                None => return Ok(Step::End),
            },
            Instruction::Act(act, at, handle) => {
                let (op, then) = running.act(act, *at)?;
                if makes_handle(&op) {
                    let made = Value::Handle(running.around.state.issued);
                    running.around.state.issued += 1;
                    handle.iter().for_each(|place| running.set(*place, made));
                }
                return Ok(Step::Do(op, then));
            }
        }
        Ok(Step::GoOn)
    }

    fn run(&mut self, view: &View<'_>) -> Ran<Op> {
        for _ in 0..MOST_INSTRUCTIONS {
            match self.instruction(view)? {
                Step::GoOn => {}
                Step::Do(op, then) => {
                    self.then = then;
                    return Ok(op);
                }
                Step::End => {
                    self.ended = true;
                    return Ok(Op::End);
                }
            }
        }
        let at = self.place_of_instruction();
        Err(Wrong { at, message: "this goes on without end and without any operation".into() })
    }

    fn place_of_instruction(&self) -> Span {
        let instructions = &self.program.code.instructions;
        match &instructions[self.state.at.min(instructions.len() - 1)] {
            Instruction::Set(_, value) | Instruction::Unless(value, _) | Instruction::Assert(value, _) => {
                value.at
            }
            Instruction::Act(_, at, _) | Instruction::Call { at, .. } => *at,
            Instruction::Jump(to) => match &instructions[*to] {
                Instruction::Unless(condition, _) => condition.at,
                _ => Span::default(),
            },
            Instruction::Return => Span::default(),
        }
    }

    /// A mistake with its place in the user's program: inside a collective, that is where it is called.
    fn mistake(&self, wrong: Wrong) -> Mistake {
        let code = &self.program.code;
        let is_user = |at: usize| at > code.library_end;
        let mut at = wrong.at;
        if !is_user(self.state.at) {
            let caller = self.state.calls.iter().rev().find(|(back, _)| is_user(*back));
            if let Some(Instruction::Call { at: call, .. }) =
                caller.map(|(back, _)| &code.instructions[*back - 1])
            {
                at = *call;
            }
        }
        let message = format!("{} (on rank {} of {})", wrong.message, self.state.rank, self.state.ranks);
        self.program.source.mistake(at, message)
    }
}

fn makes_handle(op: &Op) -> bool {
    matches!(
        op,
        Op::Send { .. }
            | Op::Recv { .. }
            | Op::Put { .. }
            | Op::Get { .. }
            | Op::Copy { .. }
            | Op::Atomic { .. }
    )
}

impl Script for Machine<'_> {
    fn next(&mut self, view: &View<'_>) -> Op {
        if let Some(op) = self.then.take() {
            return op;
        }
        if self.ended || self.program.has_failed() {
            return Op::End;
        }
        match self.run(view) {
            Ok(op) => op,
            Err(wrong) => {
                self.ended = true;
                self.program.fail(self.mistake(wrong));
                Op::End
            }
        }
    }
}

/// An instruction that is being carried out.
struct Running<'a, 's, 'v> {
    code: &'a Code,
    around: Around<'s, 'v>,
}

impl<'s, 'v> Running<'_, 's, 'v> {
    fn evaluator(&mut self) -> Evaluator<'_, Around<'s, 'v>> {
        Evaluator { functions: &self.code.functions, around: &mut self.around, arguments: &[] }
    }

    fn value(&mut self, expr: &Expr) -> Ran<Value> {
        self.evaluator().value(expr)
    }

    fn number(&mut self, expr: &Expr) -> Ran<i64> {
        self.evaluator().number(expr)
    }

    fn set(&mut self, place: Place, value: Value) {
        let state = &mut *self.around.state;
        match place {
            Place::Global(number) => state.globals[number as usize] = Some(value),
            Place::Local(number) => state.locals[state.base + number as usize] = Some(value),
        }
    }

    fn call(&mut self, procedure: u16, arguments: &[Expr], at: Span) -> Ran<()> {
        let procedure = &self.code.procedures[procedure as usize];
        let values = arguments.iter().map(|argument| self.value(argument)).collect::<Ran<Vec<_>>>()?;
        let state = &mut *self.around.state;
        if state.calls.len() == DEEPEST_CALLS {
            return Err(Wrong {
                at,
                message: format!("procedures call each other more than {DEEPEST_CALLS} deep"),
            });
        }
        state.calls.push((state.at, state.base));
        state.base = state.locals.len();
        state.locals.resize(state.base + procedure.locals as usize, None);
        for (place, value) in values.into_iter().enumerate() {
            state.locals[state.base + place] = Some(value);
        }
        state.at = procedure.entry;
        Ok(())
    }

    /// An operation, and the wait behind it if it blocks.
    fn act(&mut self, act: &Act, at: Span) -> Ran<(Op, Option<Op>)> {
        let wait = Op::Wait(Wait::Handle(Handle(self.around.state.issued)));
        let op = match act {
            Act::Send { blocking, bytes, to, tag, gap, order } => {
                let op = Op::Send {
                    to: self.rank(to)?,
                    bytes: self.count(bytes, "bytes")?,
                    tag: self.tag(tag)?.unwrap_or(0),
                    gap: self.gap(gap)?,
                    order: self.order(order)?,
                };
                return Ok((op, blocking.then_some(wait)));
            }
            Act::Receive { blocking, bytes, from, tag } => {
                let from = from.as_ref().map_or(Ok(Source::Any), |from| self.rank(from).map(Source::Rank))?;
                let tag = Some(self.tag(tag)?.unwrap_or(0));
                let op = Op::Recv { from, bytes: self.count(bytes, "bytes")?, tag };
                return Ok((op, blocking.then_some(wait)));
            }
            Act::Put { bytes, to, flag, gap, order } => Op::Put {
                to: self.rank(to)?,
                bytes: self.count(bytes, "bytes")?,
                flag: self.flag(flag)?,
                gap: self.gap(gap)?,
                order: self.order(order)?,
            },
            Act::Get { bytes, from, gap, order } => Op::Get {
                from: self.rank(from)?,
                bytes: self.count(bytes, "bytes")?,
                gap: self.gap(gap)?,
                order: self.order(order)?,
            },
            Act::Copy { bytes, from, to, flag, gap, order } => Op::Copy {
                to: self.rank(to)?,
                from: self.rank(from)?,
                bytes: self.count(bytes, "bytes")?,
                flag: self.flag(flag)?,
                gap: self.gap(gap)?,
                order: self.order(order)?,
            },
            Act::Atomic { on, order } => Op::Atomic { to: self.rank(on)?, order: self.order(order)? },
            Act::Wait(handle) => Op::Wait(Wait::Handle(self.handle(handle)?)),
            Act::WaitAll => Op::Wait(Wait::All),
            Act::WaitFlag { flag, count } => Op::WaitFlag {
                flag: self.count(flag, "the number of a flag")?,
                count: count.as_ref().map_or(Ok(1), |count| self.count(count, "a count"))?,
            },
            Act::Compute(time) => Op::Compute(self.time(time, at)?),
            Act::Barrier => Op::Barrier,
            Act::Step => Op::Step,
        };
        Ok((op, None))
    }

    fn rank(&mut self, expr: &Expr) -> Ran<u32> {
        let (rank, ranks) = (self.number(expr)?, self.around.state.ranks);
        let wrong = || Wrong {
            at: expr.at,
            message: format!("there is no rank {rank}: ranks are 0 to {}", ranks - 1),
        };
        u32::try_from(rank).ok().filter(|rank| *rank < ranks).ok_or_else(wrong)
    }

    fn count(&mut self, expr: &Expr, what: &str) -> Ran<u64> {
        let value = self.number(expr)?;
        u64::try_from(value).map_err(|_| Wrong { at: expr.at, message: format!("{what} cannot be {value}") })
    }

    fn tag(&mut self, expr: &Option<Expr>) -> Ran<Option<u64>> {
        let Some(expr) = expr else { return Ok(None) };
        let is_library = self.around.state.at <= self.code.library_end;
        let value = self.number(expr)?;
        match u64::try_from(value) {
            Ok(tag) if is_library || value < LIBRARY_TAGS => Ok(Some(tag)),
            _ => {
                let message = format!("a tag cannot be {value}; it should be 0 to {}", LIBRARY_TAGS - 1);
                Err(Wrong { at: expr.at, message })
            }
        }
    }

    fn flag(&mut self, expr: &Option<Expr>) -> Ran<Option<u64>> {
        expr.as_ref().map(|expr| self.count(expr, "the number of a flag")).transpose()
    }

    fn gap(&mut self, expr: &Option<Expr>) -> Ran<Gap> {
        let Some(expr) = expr else { return Ok(Gap::Default) };
        match self.value(expr)? {
            Value::Time(gap) => {
                Ok(u64::try_from(gap).map_or(Gap::Default, |gap| Gap::Fixed(Time::from_ps(gap))))
            }
            other => {
                let message = format!("a gap is a time such as 500 ns, not {}", other.what());
                Err(Wrong { at: expr.at, message })
            }
        }
    }

    fn order(&mut self, order: &OrderBy) -> Ran<Order> {
        Ok(match order {
            OrderBy::None => Order::None,
            OrderBy::All => Order::All,
            OrderBy::Continue => Order::Continue,
            OrderBy::After(handle) => Order::Handle(self.handle(handle)?),
        })
    }

    fn handle(&mut self, expr: &Expr) -> Ran<Handle> {
        match self.value(expr)? {
            Value::Handle(handle) => Ok(Handle(handle)),
            other => {
                Err(Wrong { at: expr.at, message: format!("expected a handle, found {}", other.what()) })
            }
        }
    }

    fn time(&mut self, expr: &Expr, at: Span) -> Ran<Time> {
        match self.value(expr)? {
            Value::Time(time) => match u64::try_from(time) {
                Ok(time) => Ok(Time::from_ps(time)),
                Err(_) => Err(Wrong { at: expr.at, message: "a time cannot be below zero".into() }),
            },
            other => {
                let message = format!("expected a time such as 10 us, found {}", other.what());
                Err(Wrong { at: at.to(expr.at), message })
            }
        }
    }
}
