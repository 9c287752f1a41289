//! Convert view arrays of strings and binaries to contiguous ones, Arrow's default layout.
//!
//! Decoding to views and copying them bounds the memory before it is allocated, and rows that
//! were not selected are not copied.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, StringViewType, Utf8Type,
};
use arrow_array::{
    Array, ArrayRef, GenericByteArray, GenericByteViewArray, ListArray, MapArray, StructArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};

/// Longest string that is stored inline in its view.
const INLINE: usize = 12;
/// Strings up to this length are copied as blocks of this length, which is faster.
const SHORT: usize = 32;

/// The same field without views, also in nested types.
pub fn plain_field(field: &FieldRef) -> FieldRef {
    with_leaves(field, &|kind| match kind {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        _ => kind.clone(),
    })
}

/// The same field with strings and binaries as views.
pub fn viewed_field(field: &FieldRef) -> FieldRef {
    with_leaves(field, &|kind| match kind {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        _ => kind.clone(),
    })
}

fn with_leaves(field: &FieldRef, of_leaf: &impl Fn(&DataType) -> DataType) -> FieldRef {
    let below = |field| with_leaves(field, of_leaf);
    let kind = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(below).collect()),
        DataType::List(element) => DataType::List(below(element)),
        DataType::Map(entries, is_sorted) => DataType::Map(below(entries), *is_sorted),
        leaf => of_leaf(leaf),
    };
    Arc::new(Field::clone(field).with_data_type(kind))
}

/// Return a column without views. It is an error if the strings of a leaf take more than `most`
/// bytes.
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
        DataType::Struct(_) => Arc::new(plain_struct(array.as_struct(), most)?),
        DataType::List(element) => {
            let element = plain_field(element);
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(
                element,
                offsets,
                plain(values, most)?,
                nulls,
            )?)
        }
        DataType::Map(entries, _) => {
            let entries = plain_field(entries);
            let (_, offsets, rows, nulls, is_sorted) = array.as_map().clone().into_parts();
            let rows = plain_struct(&rows, most)?;
            Arc::new(MapArray::try_new(entries, offsets, rows, nulls, is_sorted)?)
        }
        _ => array,
    })
}

fn plain_struct(array: &StructArray, most: usize) -> Result<StructArray, ArrowError> {
    let (fields, columns, nulls) = array.clone().into_parts();
    let columns = columns.into_iter().map(|column| plain(column, most));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new(fields.iter().map(plain_field).collect(), columns, nulls)
}

fn copied<V: ByteViewType, P: ByteArrayType<Offset = i32>>(
    array: &GenericByteViewArray<V>,
    most: usize,
) -> Result<GenericByteArray<P>, ArrowError> {
    let size: usize = array.views().iter().map(|view| length(*view)).sum();
    if size > most.min(i32::MAX as usize) {
        return Err(ArrowError::ParquetError(format!(
            "strings of {size} bytes are too many for one batch"
        )));
    }
    let mut values = Vec::new();
    let mut offsets = Vec::new();
    let enough = values.try_reserve_exact(size + SHORT).is_ok()
        && offsets.try_reserve_exact(array.len() + 1).is_ok();
    if !enough {
        return Err(ArrowError::MemoryError(format!(
            "cannot allocate {size} bytes"
        )));
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

/// Append the value of a view. Short strings are appended as a block and then truncated.
fn push(values: &mut Vec<u8>, view: u128, buffers: &[Buffer]) {
    let length = length(view);
    let end = values.len() + length;
    if length <= INLINE {
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
