//! Texts and bytes one after the other in memory of their own, as Arrow has them by default.
//!
//! They are decoded as views and then copied: how much memory it takes is known before it is
//! taken, and what was left out in between is not copied.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, StringViewType, Utf8Type,
};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};

/// Texts up to this length are within their view.
const WITHIN: usize = 12;
/// Texts up to this length are copied by as much, which is quicker than to the byte.
const SHORT: usize = 32;

/// The same field without views.
pub fn plain_field(field: &FieldRef) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        _ => return field.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(kind))
}

/// Return a column without views. It is an error if its texts would take more than `most` bytes.
pub fn plain(array: ArrayRef, most: usize) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(copied::<StringViewType, Utf8Type>(
            array.as_string_view(),
            most,
        )?),
        DataType::BinaryView => Arc::new(copied::<BinaryViewType, BinaryType>(
            array.as_binary_view(),
            most,
        )?),
        _ => array,
    })
}

fn copied<V: ByteViewType, P: ByteArrayType<Offset = i32>>(
    array: &GenericByteViewArray<V>,
    most: usize,
) -> Result<GenericByteArray<P>, ArrowError> {
    let size: usize = array.views().iter().map(|view| length(*view)).sum();
    if size > most.min(i32::MAX as usize) {
        return Err(ArrowError::ParquetError(format!(
            "texts of {size} bytes are too many for one batch"
        )));
    }
    let mut values = Vec::new();
    let mut offsets = Vec::new();
    let enough = values.try_reserve_exact(size + SHORT).is_ok()
        && offsets.try_reserve_exact(array.len() + 1).is_ok();
    if !enough {
        return Err(ArrowError::MemoryError(format!("no {size} bytes are left")));
    }
    offsets.push(0);
    let buffers = array.data_buffers();
    for view in array.views().iter() {
        push(&mut values, *view, buffers);
        offsets.push(values.len() as i32);
    }
    GenericByteArray::try_new(
        OffsetBuffer::new(ScalarBuffer::from(offsets)),
        Buffer::from_vec(values),
        array.nulls().cloned(),
    )
}

fn length(view: u128) -> usize {
    view as u32 as usize
}

/// Add what a view shows. Short texts are added by a fixed length and then cut.
fn push(values: &mut Vec<u8>, view: u128, buffers: &[Buffer]) {
    let length = length(view);
    let end = values.len() + length;
    if length <= WITHIN {
        values.extend_from_slice(&view.to_le_bytes()[4..]);
        values.truncate(end);
        return;
    }
    let buffer = buffers[(view >> 64) as u32 as usize].as_slice();
    let start = (view >> 96) as usize;
    match buffer.get(start..start + SHORT) {
        Some(more) if length <= SHORT => {
            values.extend_from_slice(more);
            values.truncate(end);
        }
        _ => values.extend_from_slice(&buffer[start..start + length]),
    }
}
