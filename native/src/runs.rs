//! Rows that are sorted in runs, each in a file of its own, and taken from all of them in one order.
//!
//! Knows neither what the rows are nor what they are sorted by: whoever asks says which row comes
//! next. Rows are copied twice on their way, into a file and out of it, and nothing larger than a
//! block of a run is held.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::interleave::interleave;

/// A row: which part it is in, and where.
type Place = (usize, usize);

/// Sorted rows in a file, which are read once from front to back.
pub struct Run {
    blocks: FileReader<File>,
    held: RecordBatch,
    /// How many rows of the block that is held were taken.
    taken: usize,
}

impl Run {
    /// Write rows of some parts to a file in an order.
    ///
    /// `order` has their places if the parts were one after the other.
    pub fn write(
        path: &Path,
        parts: &[RecordBatch],
        order: &[i32],
        block_rows: usize,
    ) -> Result<Self, ArrowError> {
        let schema = parts
            .first()
            .map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        let rows: Vec<_> = parts
            .iter()
            .enumerate()
            .flat_map(|(part, rows)| (0..rows.num_rows()).map(move |row| (part, row)))
            .collect();
        let places = ordered(&rows, order)?;
        let mut file = FileWriter::try_new(File::create(path)?, &schema)?;
        for block in places.chunks(block_rows.max(1)) {
            file.write(&gathered(&schema, parts, block)?)?;
        }
        file.finish()?;
        Ok(Self {
            blocks: FileReader::try_new(File::open(path)?, None)?,
            held: RecordBatch::new_empty(schema),
            taken: 0,
        })
    }

    /// Give blocks that have the next so many rows, and which of theirs these are.
    fn advance(
        &mut self,
        mut rows: usize,
        mut give: impl FnMut(RecordBatch, usize, usize),
    ) -> Result<(), ArrowError> {
        while rows > 0 {
            if self.taken == self.held.num_rows() {
                self.held = self.blocks.next().unwrap_or_else(|| Err(too_few()))?;
                self.taken = 0;
            }
            let count = rows.min(self.held.num_rows() - self.taken);
            give(self.held.clone(), self.taken, count);
            self.taken += count;
            rows -= count;
        }
        Ok(())
    }
}

/// Return the next rows of runs in an order.
///
/// `counts` has how many rows each run gives; `order` their places if those of the first run were
/// followed by those of the second, and so on. A column that a run lacks is null.
pub fn next_rows(
    runs: &mut [&mut Run],
    counts: &[usize],
    order: &[i32],
) -> Result<RecordBatch, ArrowError> {
    let mut parts = Vec::new();
    let mut rows = Vec::with_capacity(order.len());
    for (run, count) in runs.iter_mut().zip(counts) {
        run.advance(*count, |block, first, count| {
            rows.extend((first..first + count).map(|row| (parts.len(), row)));
            parts.push(block);
        })?;
    }
    let schemas = parts.iter().map(|part| part.schema().as_ref().clone());
    let schema = Arc::new(Schema::try_merge(schemas)?);
    gathered(&schema, &parts, &ordered(&rows, order)?)
}

fn ordered(rows: &[Place], order: &[i32]) -> Result<Vec<Place>, ArrowError> {
    let places = order
        .iter()
        .map(|at| rows.get(usize::try_from(*at).ok()?).copied());
    places.collect::<Option<Vec<_>>>().ok_or_else(too_few)
}

fn gathered(
    schema: &SchemaRef,
    parts: &[RecordBatch],
    places: &[Place],
) -> Result<RecordBatch, ArrowError> {
    let columns = schema
        .fields()
        .iter()
        .map(|field| {
            let found: Vec<_> = parts
                .iter()
                .map(|part| part.column_by_name(field.name()))
                .collect();
            if found.iter().all(Option::is_some) {
                let arrays: Vec<&dyn Array> =
                    found.into_iter().flatten().map(AsRef::as_ref).collect();
                return interleave(&arrays, places);
            }
            // One null stands for all rows of a part.
            let null: ArrayRef = new_null_array(field.data_type(), 1);
            let arrays: Vec<&dyn Array> = found
                .iter()
                .map(|column| column.map_or(null.as_ref(), AsRef::as_ref))
                .collect();
            let places: Vec<_> = places
                .iter()
                .map(|(part, row)| (*part, if found[*part].is_some() { *row } else { 0 }))
                .collect();
            interleave(&arrays, &places)
        })
        .collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema.clone(), columns)
}

fn too_few() -> ArrowError {
    ArrowError::InvalidArgumentError("there are fewer rows than were asked for".into())
}
