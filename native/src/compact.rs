//! Thrift's compact protocol, as far as footers and headers of pages need it, and strictly: fields
//! ascend, and are of no other types than these have. What is not so is none of it.

pub const BOOL: u8 = 1; // true
const FALSE: u8 = 2; // of the same type
const I8: u8 = 3;
pub const I16: u8 = 4;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
const DOUBLE: u8 = 7;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;
/// Structs in each other; headers of pages need three, footers six.
const DEEPEST: usize = 8;

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
        self.each(&[], |compact, field, kind| {
            fields.push((field, compact.value(kind, depth)?));
            Some(())
        })?;
        Some(Fields(fields))
    }

    /// Read a struct: give number and type of each field to someone who reads its value. `types` are
    /// those of the first fields; 0 stands for any.
    pub fn each(
        &mut self,
        types: &[u8],
        mut read: impl FnMut(&mut Self, u8, u8) -> Option<()>,
    ) -> Option<()> {
        let mut field: u8 = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            field = match head >> 4 {
                0 => u8::try_from(self.signed()?).ok().filter(|at| *at > field)?,
                step => field.checked_add(step)?,
            };
            let kind = head & 0x0f;
            match types.get(usize::from(field) - 1) {
                None | Some(0) => (),
                Some(&BOOL) if kind == FALSE => (),
                Some(expected) if *expected == kind => (),
                _ => return None,
            }
            read(self, field, kind)?;
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Value> {
        Some(match kind {
            BOOL | FALSE => Value::Other(BOOL), // it is its own type
            I32 => Value::Number(self.small()?),
            I64 => {
                self.number()?;
                Value::Other(I64)
            }
            BINARY => {
                self.pass_bytes()?;
                Value::Other(BINARY)
            }
            STRUCT => Value::Inner(self.fields_within(depth + 1)?),
            _ => return None,
        })
    }

    /// Read an integer of 32 bits; None where they do not hold it, and others would cut it off.
    pub fn small(&mut self) -> Option<i64> {
        i32::try_from(self.signed()?).ok().map(i64::from)
    }

    /// Read how many values a list has; they come next. None unless they are of a type.
    pub fn list(&mut self, inner: u8) -> Option<usize> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.number()?).ok()?,
            few => usize::from(few),
        };
        let fits = count <= self.bytes.len() - self.at; // each takes a byte at least
        (fits && (count == 0 || head & 0x0f == inner)).then_some(count)
    }

    /// Pass over a list of values of a type; return how many.
    pub fn pass_list(&mut self, inner: u8) -> Option<usize> {
        let count = self.list(inner)?;
        for _ in 0..count {
            self.pass(inner)?;
        }
        Some(count)
    }

    /// Pass over bytes; return how many.
    pub fn pass_bytes(&mut self) -> Option<i64> {
        let length = self.number()?;
        self.skip(length)?;
        i64::try_from(length).ok()
    }

    /// Pass over a value that is no list, nor has any inside.
    pub fn pass(&mut self, kind: u8) -> Option<()> {
        self.pass_within(kind, 0)
    }

    fn pass_within(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            BOOL | FALSE => Some(()),
            I8 => self.skip(1),
            I16 | I32 | I64 => self.number().map(|_| ()),
            DOUBLE => self.skip(8),
            BINARY => self.pass_bytes().map(|_| ()),
            STRUCT if depth < DEEPEST => {
                self.each(&[], |compact, _, kind| compact.pass_within(kind, depth + 1))
            }
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
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
