//! Strict reader of Thrift's compact protocol, as far as footers and page headers need it: field
//! numbers ascend, and only the types of those structs are accepted.

pub const BOOL: u8 = 1; // true
const FALSE: u8 = 2; // the same type with another value
const I8: u8 = 3;
pub const I16: u8 = 4;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
const DOUBLE: u8 = 7;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;
/// Most levels of nested structs; page headers need three, footers six.
const DEEPEST: usize = 8;

/// A struct.
pub struct Fields(Vec<(u8, Value)>);

enum Value {
    Number(i64),
    Inner(Fields),
    Other(u8),
}

impl Fields {
    /// Whether every field has the type at its position; 0 allows no field.
    pub fn have_types(&self, types: &[u8]) -> bool {
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

/// Reads bytes from the front. Methods return None where these end too early or are malformed.
pub struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Compact<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The number of bytes read.
    pub fn position(&self) -> usize {
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
        self.each_field(&[], |compact, field, kind| {
            fields.push((field, compact.value(kind, depth)?));
            Some(())
        })?;
        Some(Fields(fields))
    }

    /// Read a struct: `read` gets number and type of each field and reads its value. `types` are
    /// the types of the first fields; 0 allows any.
    pub fn each_field(
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
            BOOL | FALSE => Value::Other(BOOL), // the value is in the type
            I32 => Value::Number(self.int32()?),
            I64 => {
                self.number()?;
                Value::Other(I64)
            }
            BINARY => {
                self.skip_binary()?;
                Value::Other(BINARY)
            }
            STRUCT => Value::Inner(self.fields_within(depth + 1)?),
            _ => return None,
        })
    }

    /// Read a 32-bit integer; None if it does not fit, because other readers truncate it.
    pub fn int32(&mut self) -> Option<i64> {
        i32::try_from(self.signed()?).ok().map(i64::from)
    }

    /// Read the header of a list of a type; return its number of values, which come next.
    pub fn list(&mut self, inner: u8) -> Option<usize> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.number()?).ok()?,
            few => usize::from(few),
        };
        let fits = count <= self.bytes.len() - self.at; // each takes a byte at least
        (fits && (count == 0 || head & 0x0f == inner)).then_some(count)
    }

    /// Skip a list of values of a type; return their number.
    pub fn skip_list(&mut self, inner: u8) -> Option<usize> {
        let count = self.list(inner)?;
        for _ in 0..count {
            self.skip_value(inner)?;
        }
        Some(count)
    }

    /// Skip a binary; return its length.
    pub fn skip_binary(&mut self) -> Option<i64> {
        let length = self.number()?;
        self.advance(length)?;
        i64::try_from(length).ok()
    }

    /// Skip a value that neither is nor contains a list.
    pub fn skip_value(&mut self, kind: u8) -> Option<()> {
        self.skip_within(kind, 0)
    }

    fn skip_within(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            BOOL | FALSE => Some(()),
            I8 => self.advance(1),
            I16 | I32 | I64 => self.number().map(|_| ()),
            DOUBLE => self.advance(8),
            BINARY => self.skip_binary().map(|_| ()),
            STRUCT if depth < DEEPEST => {
                self.each_field(&[], |compact, _, kind| compact.skip_within(kind, depth + 1))
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

    fn advance(&mut self, length: u64) -> Option<()> {
        self.at = self.at.checked_add(usize::try_from(length).ok()?)?;
        (self.at <= self.bytes.len()).then_some(())
    }
}
