//! Evaluates expressions. Overflow, division by zero and mixing of kinds are mistakes with a place, not panics.

use super::code::{Binary, Builtin, Expr, ExprKind, Place, Value};
use crate::source::Span;

/// What is wrong at a place.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    pub(super) at: Span,
    pub(super) message: String,
}

pub(super) type Evaluated = Result<Value, Wrong>;

/// What an expression can see.
pub(super) trait Surroundings {
    fn rank(&self) -> Option<u32>;
    fn ranks(&self) -> u32;
    fn variable(&self, place: Place) -> Option<Value>;
    /// The value of a built-in that depends on more than its arguments; `None` where it cannot be known.
    fn ask(&mut self, builtin: Builtin, argument: i64) -> Option<Value>;
}

/// Only the number of ranks: for the values of parameters.
struct Before {
    ranks: u32,
}

impl Surroundings for Before {
    fn rank(&self) -> Option<u32> {
        None
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn variable(&self, _place: Place) -> Option<Value> {
        None
    }

    fn ask(&mut self, _builtin: Builtin, _argument: i64) -> Option<Value> {
        None
    }
}

/// The value of an expression that must not depend on a rank.
pub(super) fn constant(functions: &[Expr], expr: &Expr, ranks: u32) -> Evaluated {
    Evaluator { functions, around: &mut Before { ranks }, arguments: &[] }.value(expr)
}

/// Evaluates with these functions and surroundings.
pub(super) struct Evaluator<'a, S> {
    pub(super) functions: &'a [Expr],
    pub(super) around: &'a mut S,
    pub(super) arguments: &'a [Value],
}

impl<S: Surroundings> Evaluator<'_, S> {
    /// The value of an expression.
    pub(super) fn value(&mut self, expr: &Expr) -> Evaluated {
        let at = expr.at;
        let wrong = |message: String| Wrong { at, message };
        match &expr.kind {
            ExprKind::Constant(value) => Ok(*value),
            ExprKind::Rank => match self.around.rank() {
                Some(rank) => Ok(Value::Number(rank as i64)),
                None => Err(wrong("a parameter is the same on all ranks and cannot depend on `rank`".into())),
            },
            ExprKind::Ranks => Ok(Value::Number(self.around.ranks() as i64)),
            ExprKind::Variable(place) => match self.around.variable(*place) {
                Some(value) => Ok(value),
                None => Err(wrong("this has no value here yet".into())),
            },
            ExprKind::Argument(number) => Ok(self.arguments[*number as usize]),
            ExprKind::Negative(inner) => match self.value(inner)? {
                Value::Number(value) => Ok(Value::Number(checked(at, value.checked_neg())?)),
                Value::Time(value) => Ok(Value::Time(checked(at, value.checked_neg())?)),
                other => Err(wrong(format!("`-` does not go with {}", other.what()))),
            },
            ExprKind::Not(inner) => Ok(Value::Number((self.number(inner)? == 0) as i64)),
            ExprKind::Binary(operator, left, right) => self.binary(at, *operator, left, right),
            ExprKind::Builtin(builtin, arguments) => self.builtin(at, *builtin, arguments),
            ExprKind::Function(number, arguments) => {
                let values =
                    arguments.iter().map(|argument| self.value(argument)).collect::<Result<Vec<_>, _>>()?;
                let body = &self.functions[*number as usize];
                Evaluator { functions: self.functions, around: self.around, arguments: &values }.value(body)
            }
            ExprKind::Timed(inner, unit) => {
                let value = self.number(inner)?;
                Ok(Value::Time(checked(at, value.checked_mul(unit.picoseconds()))?))
            }
        }
    }

    /// The value of an expression that must be a number.
    pub(super) fn number(&mut self, expr: &Expr) -> Result<i64, Wrong> {
        match self.value(expr)? {
            Value::Number(value) => Ok(value),
            other => {
                Err(Wrong { at: expr.at, message: format!("expected a number, found {}", other.what()) })
            }
        }
    }

    fn binary(&mut self, at: Span, operator: Binary, left: &Expr, right: &Expr) -> Evaluated {
        if matches!(operator, Binary::And | Binary::Or) {
            let first = self.number(left)? != 0;
            let decided = first == (operator == Binary::Or);
            let value = if decided { first } else { self.number(right)? != 0 };
            return Ok(Value::Number(value as i64));
        }
        let (one, other) = (self.value(left)?, self.value(right)?);
        let wrong =
            || Wrong { at, message: format!("this does not go with {} and {}", one.what(), other.what()) };
        match (one, other) {
            (Value::Number(a), Value::Number(b)) => Ok(Value::Number(arithmetic(at, operator, a, b)?)),
            (Value::Time(a), Value::Time(b)) => match operator {
                Binary::Add | Binary::Subtract | Binary::Remainder => {
                    Ok(Value::Time(arithmetic(at, operator, a, b)?))
                }
                Binary::Multiply | Binary::BitOr | Binary::BitXor | Binary::BitAnd => Err(wrong()),
                Binary::ShiftLeft | Binary::ShiftRight => Err(wrong()),
                _ => Ok(Value::Number(arithmetic(at, operator, a, b)?)),
            },
            (Value::Time(a), Value::Number(b)) if matches!(operator, Binary::Multiply | Binary::Divide) => {
                Ok(Value::Time(arithmetic(at, operator, a, b)?))
            }
            (Value::Number(a), Value::Time(b)) if operator == Binary::Multiply => {
                Ok(Value::Time(arithmetic(at, operator, a, b)?))
            }
            _ => Err(wrong()),
        }
    }

    fn builtin(&mut self, at: Span, builtin: Builtin, arguments: &[Expr]) -> Evaluated {
        if let [Expr { at: handle_at, .. }] = arguments {
            if builtin == Builtin::Done {
                let Value::Handle(handle) = self.value(&arguments[0])? else {
                    return Err(Wrong { at: *handle_at, message: "expected a handle".into() });
                };
                return self.asked(at, builtin, handle as i64);
            }
        }
        match builtin {
            Builtin::Min | Builtin::Max => self.extreme(at, builtin, arguments),
            Builtin::Abs => match self.value(&arguments[0])? {
                Value::Number(value) => Ok(Value::Number(checked(at, value.checked_abs())?)),
                Value::Time(value) => Ok(Value::Time(checked(at, value.checked_abs())?)),
                other => Err(Wrong { at, message: format!("`abs` does not go with {}", other.what()) }),
            },
            Builtin::Now => self.asked(at, builtin, 0),
            Builtin::Flag | Builtin::Random => {
                let argument = self.number(&arguments[0])?;
                if builtin == Builtin::Random && argument < 1 {
                    return Err(Wrong { at, message: format!("there is no random number below {argument}") });
                }
                self.asked(at, builtin, argument)
            }
            Builtin::DivUp | Builtin::Gcd => {
                let (a, b) = (self.number(&arguments[0])?, self.number(&arguments[1])?);
                let value = if builtin == Builtin::Gcd { Some(gcd(a, b)) } else { div_up(a, b) };
                value
                    .map(Value::Number)
                    .ok_or_else(|| Wrong { at, message: format!("cannot divide {a} by {b}") })
            }
            _ => {
                let value = self.number(&arguments[0])?;
                one_number(builtin, value)
                    .map(Value::Number)
                    .ok_or_else(|| Wrong { at, message: format!("this is not defined for {value}") })
            }
        }
    }

    fn asked(&mut self, at: Span, builtin: Builtin, argument: i64) -> Evaluated {
        let message = || "this cannot be known here".to_string();
        self.around.ask(builtin, argument).ok_or_else(|| Wrong { at, message: message() })
    }

    fn extreme(&mut self, at: Span, builtin: Builtin, arguments: &[Expr]) -> Evaluated {
        let mut best = self.value(&arguments[0])?;
        for argument in &arguments[1..] {
            let next = self.value(argument)?;
            let less = match (next, best) {
                (Value::Number(a), Value::Number(b)) | (Value::Time(a), Value::Time(b)) => a < b,
                _ => {
                    return Err(Wrong {
                        at,
                        message: "these cannot be compared: numbers or times, not both".into(),
                    })
                }
            };
            if less == (builtin == Builtin::Min) {
                best = next;
            }
        }
        Ok(best)
    }
}

fn checked(at: Span, value: Option<i64>) -> Result<i64, Wrong> {
    value.ok_or_else(|| Wrong { at, message: "this is too large for a number of 64 bits".into() })
}

fn arithmetic(at: Span, operator: Binary, a: i64, b: i64) -> Result<i64, Wrong> {
    if matches!(operator, Binary::Divide | Binary::Remainder) && b == 0 {
        return Err(Wrong { at, message: "this divides by zero".into() });
    }
    if matches!(operator, Binary::ShiftLeft | Binary::ShiftRight) && !(0..63).contains(&b) {
        return Err(Wrong { at, message: format!("cannot shift by {b}; 0 to 62 will do") });
    }
    let value = match operator {
        Binary::Equal => Some((a == b) as i64),
        Binary::NotEqual => Some((a != b) as i64),
        Binary::Less => Some((a < b) as i64),
        Binary::LessEqual => Some((a <= b) as i64),
        Binary::Greater => Some((a > b) as i64),
        Binary::GreaterEqual => Some((a >= b) as i64),
        Binary::BitOr => Some(a | b),
        Binary::BitXor => Some(a ^ b),
        Binary::BitAnd => Some(a & b),
        Binary::ShiftLeft => a.checked_mul(1 << b),
        Binary::ShiftRight => Some(a >> b),
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        // Rounded down, with a remainder that has the divisor's sign: `(rank - 1) % ranks` is a rank.
        Binary::Divide => {
            a.checked_div(b).map(|quotient| quotient - (a % b != 0 && (a < 0) != (b < 0)) as i64)
        }
        Binary::Remainder => {
            a.checked_rem(b).map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
        }
        Binary::And => Some((a != 0 && b != 0) as i64),
        Binary::Or => Some((a != 0 || b != 0) as i64),
    };
    checked(at, value)
}

fn one_number(builtin: Builtin, value: i64) -> Option<i64> {
    match builtin {
        Builtin::Log2 => (value > 0).then(|| value.ilog2() as i64),
        Builtin::Log2Up => (value > 0).then(|| (64 - (value - 1).leading_zeros()) as i64),
        Builtin::Pow2 => (0..63).contains(&value).then(|| 1 << value),
        Builtin::Sqrt => (value >= 0).then(|| value.isqrt()),
        Builtin::Bits => Some(value.count_ones() as i64),
        Builtin::Hash => Some((mix(value as u64) >> 2) as i64),
        _ => None,
    }
}

/// Spreads the bits of a number over all of it.
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.min(i64::MAX as u64) as i64
}

fn div_up(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    quotient.checked_add((a % b != 0 && (a < 0) == (b < 0)) as i64)
}
