//! Thrift's compact protocol, as far as headers of pages need it, and strictly: fields ascend by
//! small steps, as every writer writes them. What is not so is none of it.

/// Structs and lists in each other, of which headers need three.
const DEEPEST: usize = 8;

/// A struct: what of it is a 32-bit number or a struct; of the rest, only that it is there.
pub struct Fields(Vec<(u8, Value)>);

enum Value {
    Number(i64),
    Inner(Fields),
    Other,
}

impl Fields {
    pub fn has(&self, field: u8) -> bool {
        self.get(field).is_some()
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
        if depth >= DEEPEST {
            return None;
        }
        match kind {
            1 | 2 => {} // a boolean is its own type
            3 => self.skip(1)?,
            4 | 6 => drop(self.number()?),
            5 => return Some(Value::Number(small(self.number()?)?)),
            7 => self.skip(8)?,
            8 => {
                let length = self.number()?;
                self.skip(length)?;
            }
            9 | 10 => self.skip_list(depth)?,
            12 => return Some(Value::Inner(self.fields_within(depth + 1)?)),
            _ => return None,
        }
        Some(Value::Other)
    }

    fn skip_list(&mut self, depth: usize) -> Option<()> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.number()?,
            few => u64::from(few),
        };
        let kind = head & 0x0f;
        for _ in 0..count {
            match kind {
                1 | 2 => self.skip(1)?, // in a list a boolean takes a byte
                _ => drop(self.value(kind, depth + 1)?),
            }
        }
        Some(())
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
