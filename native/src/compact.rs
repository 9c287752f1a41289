//! Thrift's compact protocol, as far as headers of pages need it, and strictly: fields ascend by
//! small steps, and are of no other types than these have. What is not so is none of it.

pub const BOOL: u8 = 1; // true; false is 2, and taken for the same
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const BINARY: u8 = 8;
pub const STRUCT: u8 = 12;
/// Structs in each other; headers of pages need three.
const DEEPEST: usize = 4;

/// A struct.
pub struct Fields(Vec<(u8, Value)>);

enum Value {
    Number(i64),
    Inner(Fields),
    Other(u8),
}

impl Fields {
    /// Whether every field has the type that stands in its place; 0 stands for none.
    pub fn are(&self, types: &[u8]) -> bool {
        let is = |value: &Value| match value {
            Value::Number(_) => I32,
            Value::Inner(_) => STRUCT,
            Value::Other(kind) => *kind,
        };
        self.0
            .iter()
            .all(|(at, value)| types.get(usize::from(*at) - 1) == Some(&is(value)))
    }

    pub fn number(&self, field: u8) -> Option<i64> {
        match self.get(field)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn inner(&self, field: u8) -> Option<&Fields> {
        match self.get(field)? {
            Value::Inner(fields) => Some(fields),
            _ => None,
        }
    }

    fn get(&self, field: u8) -> Option<&Value> {
        self.0
            .iter()
            .find(|(at, _)| *at == field)
            .map(|(_, value)| value)
    }
}

/// Bytes that are read from the front; None where they end too early or make no sense.
pub struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Compact<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub fn passed(&self) -> usize {
        self.at
    }

    /// Read a struct.
    pub fn fields(&mut self) -> Option<Fields> {
        self.fields_within(0)
    }

    fn fields_within(&mut self, depth: usize) -> Option<Fields> {
        if depth >= DEEPEST {
            return None;
        }
        let mut fields = Vec::new();
        let mut field: u8 = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(Fields(fields));
            }
            let step = head >> 4;
            if step == 0 {
                return None; // the long form, which may also go back
            }
            field = field.checked_add(step)?;
            fields.push((field, self.value(head & 0x0f, depth)?));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Value> {
        Some(match kind {
            1 | 2 => Value::Other(BOOL), // it is its own type
            I32 => Value::Number(small(self.number()?)?),
            I64 => {
                self.number()?;
                Value::Other(I64)
            }
            BINARY => {
                let length = self.number()?;
                self.skip(length)?;
                Value::Other(BINARY)
            }
            STRUCT => Value::Inner(self.fields_within(depth + 1)?),
            _ => return None,
        })
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn skip(&mut self, length: u64) -> Option<()> {
        self.at = self.at.checked_add(usize::try_from(length).ok()?)?;
        (self.at <= self.bytes.len()).then_some(())
    }
}

/// Undo the zigzag; None where 32 bits do not hold it, and others would cut it off.
fn small(number: u64) -> Option<i64> {
    let signed = (number >> 1) as i64 ^ -((number & 1) as i64);
    i32::try_from(signed).ok().map(i64::from)
}
