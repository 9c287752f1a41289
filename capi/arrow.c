/* The structs of the Arrow C data interface, built from the frames of a worker.
 *
 * All structs of a schema or batch share one block. Each of them has a release callback and may be
 * moved away by the consumer, so the block lives until the last one is released. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

typedef struct {
  atomic_int references;
  void *payload;
} block;

static void drop(block *memory) {
  if (atomic_fetch_sub(&memory->references, 1) != 1) return;
  free(memory->payload);
  free(memory);
}

void *ld_allocate_payload(int64_t length) {
  return aligned_alloc(64, ((size_t)length + 63) / 64 * 64 + 64);
}

/* --- schemas */

typedef struct {
  int64_t flags, children;
  int32_t dictionary, format, name, metadata;
} schema_node;

typedef struct {
  block *memory;
  const char *at;
  struct ArrowSchema *next;
  struct ArrowSchema **links;
} schema_reader;

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++)
    if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
  if (schema->dictionary && schema->dictionary->release)
    schema->dictionary->release(schema->dictionary);
  schema->release = NULL;
  drop(schema->private_data);
}

static void read_schema(schema_reader *reader, struct ArrowSchema *out) {
  schema_node node;
  memcpy(&node, reader->at, sizeof node);
  const char *format = reader->at + sizeof node, *name = format + node.format + 1;
  const char *metadata = name + node.name + 1;
  reader->at = metadata + (node.metadata < 0 ? 0 : node.metadata);
  *out = (struct ArrowSchema){.format = format,
                              .name = name,
                              .metadata = node.metadata < 0 ? NULL : metadata,
                              .flags = node.flags,
                              .n_children = node.children,
                              .children = reader->links,
                              .release = release_schema,
                              .private_data = reader->memory};
  atomic_fetch_add(&reader->memory->references, 1);
  reader->links += node.children;
  for (int64_t i = 0; i < node.children; i++) {
    out->children[i] = reader->next++;
    read_schema(reader, out->children[i]);
  }
  if (!node.dictionary) return;
  out->dictionary = reader->next++;
  read_schema(reader, out->dictionary);
}

int32_t ld_build_schema(const char *payload, int64_t length, struct ArrowSchema *out) {
  int64_t nodes;
  memcpy(&nodes, payload, sizeof nodes);
  size_t structs = (size_t)nodes * sizeof(struct ArrowSchema);
  block *memory = malloc(sizeof *memory + structs + (size_t)nodes * sizeof(void *));
  char *copy = malloc((size_t)length);
  if (!memory || !copy) {
    free(memory);
    free(copy);
    return ld_no_memory();
  }
  memcpy(copy, payload, (size_t)length);
  atomic_init(&memory->references, 0);
  memory->payload = copy;
  struct ArrowSchema *first = (struct ArrowSchema *)(memory + 1);
  schema_reader reader = {memory, copy + sizeof nodes, first,
                          (struct ArrowSchema **)(first + nodes)};
  read_schema(&reader, out);
  return DELTA_OK;
}

/* --- batches */

typedef struct {
  int64_t body; /* where the buffers begin */
  int32_t nodes, buffers, token, unused;
} batch_head;

typedef struct {
  int64_t length, nulls, offset;
  int32_t buffers, children, dictionary, unused;
} array_node;

typedef struct {
  block *memory;
  const array_node *node;
  const int64_t *position;
  const char *body;
  struct ArrowArray *next;
  struct ArrowArray **links;
  const void **buffers;
} array_reader;

static void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_children; i++)
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
  if (array->dictionary && array->dictionary->release)
    array->dictionary->release(array->dictionary);
  array->release = NULL;
  drop(array->private_data);
}

static void read_array(array_reader *reader, struct ArrowArray *out) {
  const array_node *node = reader->node++;
  *out = (struct ArrowArray){.length = node->length,
                             .null_count = node->nulls,
                             .offset = node->offset,
                             .n_buffers = node->buffers,
                             .n_children = node->children,
                             .buffers = reader->buffers,
                             .children = reader->links,
                             .release = release_array,
                             .private_data = reader->memory};
  atomic_fetch_add(&reader->memory->references, 1);
  for (int32_t i = 0; i < node->buffers; i++, reader->position++)
    *reader->buffers++ = *reader->position < 0 ? NULL : reader->body + *reader->position;
  reader->links += node->children;
  for (int32_t i = 0; i < node->children; i++) {
    out->children[i] = reader->next++;
    read_array(reader, out->children[i]);
  }
  if (!node->dictionary) return;
  out->dictionary = reader->next++;
  read_array(reader, out->dictionary);
}

int32_t ld_build_array(char *payload, struct ArrowArray *out) {
  const batch_head *head = (const batch_head *)payload;
  const array_node *nodes = (const array_node *)(head + 1);
  const int64_t *positions = (const int64_t *)(nodes + head->nodes);
  size_t structs = (size_t)head->nodes * (sizeof(struct ArrowArray) + sizeof(void *));
  block *memory = malloc(sizeof *memory + structs + (size_t)head->buffers * sizeof(void *));
  if (!memory) {
    free(payload);
    return ld_no_memory();
  }
  atomic_init(&memory->references, 0);
  memory->payload = payload;
  struct ArrowArray *first = (struct ArrowArray *)(memory + 1);
  struct ArrowArray **links = (struct ArrowArray **)(first + head->nodes);
  array_reader reader = {memory, nodes,  positions, payload + head->body,
                         first,  links, (const void **)(links + head->nodes)};
  read_array(&reader, out);
  return DELTA_OK;
}

const char *ld_batch_token(const char *payload) {
  const batch_head *head = (const batch_head *)payload;
  const array_node *nodes = (const array_node *)(head + 1);
  return (const char *)((const int64_t *)(nodes + head->nodes) + head->buffers);
}
