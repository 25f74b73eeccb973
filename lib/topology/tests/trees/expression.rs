//! Arithmetic in braces: integers, variables, lists, `+ - * / %`, `< > <= >= ==` (1 or 0), parentheses.

use std::iter::Peekable;
use std::str::Chars;

/// The value of an expression.
///
/// # Errors
/// What is wrong with it.
pub(super) fn value(text: &str, variables: &[(char, i128)]) -> Result<i128, String> {
    let mut parser = Parser {
        input: text.chars().peekable(),
        variables,
    };
    let value = parser.comparison()?;
    match parser.next_token() {
        None => Ok(value),
        Some(other) => Err(format!("{other} in {{{text}}}")),
    }
}

struct Parser<'a> {
    input: Peekable<Chars<'a>>,
    variables: &'a [(char, i128)],
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        while self.input.next_if(|c| *c == ' ').is_some() {}
        self.input.peek().copied()
    }

    fn next_token(&mut self) -> Option<char> {
        self.peek()?;
        self.input.next()
    }

    /// Takes one of the given characters, if it comes next.
    fn take(&mut self, any: &str) -> Option<char> {
        let next = self.peek()?;
        any.contains(next).then(|| self.input.next())?
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.next_token() {
            Some(found) if found == wanted => Ok(()),
            found => Err(format!("expected {wanted}, found {found:?}")),
        }
    }

    fn comparison(&mut self) -> Result<i128, String> {
        let left = self.sum()?;
        let Some(operator) = self.take("<>=") else {
            return Ok(left);
        };
        let equal = self.take("=").is_some();
        let right = self.sum()?;
        Ok(i128::from(match (operator, equal) {
            ('<', false) => left < right,
            ('<', true) => left <= right,
            ('>', false) => left > right,
            ('>', true) => left >= right,
            ('=', true) => left == right,
            _ => return Err("a single =".to_owned()),
        }))
    }

    fn sum(&mut self) -> Result<i128, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take("+-") {
            let right = self.product()?;
            left = if operator == '+' {
                left + right
            } else {
                left - right
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<i128, String> {
        let mut left = self.primary()?;
        while let Some(operator) = self.take("*/%") {
            let right = self.primary()?;
            let result = match operator {
                '*' => left.checked_mul(right),
                '/' => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            left = result.ok_or("division by zero, or too large")?;
        }
        Ok(left)
    }

    fn primary(&mut self) -> Result<i128, String> {
        match self.next_token() {
            Some('(') => {
                let value = self.comparison()?;
                self.expect(')')?;
                Ok(value)
            }
            Some('[') => self.element(),
            Some(digit) if digit.is_ascii_digit() => {
                let mut digits = String::from(digit);
                while let Some(digit) = self.input.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                digits.parse().map_err(|_| format!("{digits} is too large"))
            }
            Some(name) => {
                let known = self.variables.iter().find(|known| known.0 == name);
                let value = known.map(|known| known.1);
                value.ok_or_else(|| format!("no variable {name} here"))
            }
            None => Err("an expression that ends early".to_owned()),
        }
    }

    /// `LIST][INDEX]`, the opening bracket taken already.
    fn element(&mut self) -> Result<i128, String> {
        let mut list = Vec::new();
        while self.take("]").is_none() {
            list.push(self.primary()?);
        }
        self.expect('[')?;
        let index = self.comparison()?;
        self.expect(']')?;
        let found = usize::try_from(index).ok().and_then(|at| list.get(at));
        let found = found.copied();
        found.ok_or_else(|| format!("no element {index} in a list of {}", list.len()))
    }
}
