/* Calls of collectives on buffers with nothing else said, as programs make most of them: from a Python object to the
 * library and back without ctypes, which takes four times as long. Optional: without it weft/core/quick.py has none of
 * its calls taken, and they go the way that all others go.
 *
 *   run = Quick(group, holder, rank, size).run
 *   run(kind, in_, out, op, root)    # True: done; a number: what C returned; None: not taken, nothing was done
 *
 * Takes only what is right at first sight: buffers without gaps, of a type in its table and of counts that fit. What is
 * wrong, or only unusual, is not taken, and said by whoever looks closely. A buffer is held during the call, so that it
 * stays where it is.
 *
 * For the limited API of Python 3.11, the first with buffers in it: one file for all later ones.
 * Thread-safety: as the operations; the interpreter's lock is given up during a call. */
// Python's own name. NOLINTNEXTLINE(readability-identifier-naming)
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <limits.h>
#include <stdint.h>

#include "weft/weft.h"

/* Order as in weft/core/quick.py. */
enum Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kAllToAll, kKindCount };

/* By the character of the format: element type + 1, and the shift to its bytes. Filled from weft/core/buffers.py. */
struct Element {
  uint8_t dtype_and_one;
  uint8_t shift;
};

static struct Element native_elements[UCHAR_MAX + 1]; /* as the compiler has them */
static struct Element
    standard_elements[UCHAR_MAX + 1]; /* behind `=` or the sign of this byte order */

struct Quick {
  PyObject ob_base; /* what PyObject_HEAD stands for */
  weft_group_t group;
  PyObject* holder; /* keeps the group */
  int rank;
  int size;
};

struct Elements {
  Py_buffer buffer;
  size_t count;
  int dtype;
  int shift;
};

static const struct Element* ElementOf(const char* format) {
  const char order = PY_LITTLE_ENDIAN ? '<' : '>';
  const struct Element* known = native_elements;
  if (format == NULL) format = "B";
  if (*format == '=' || *format == order) {
    known = standard_elements;
    ++format;
  } else if (*format == '@') {
    ++format;
  }
  return format[0] != '\0' && format[1] == '\0' ? &known[(unsigned char)*format] : &known[0];
}

/* False, with nothing held and no exception, if it is not taken. */
static int Hold(PyObject* object, int writes, struct Elements* elements) {
  if (!PyObject_CheckBuffer(object)) return 0;
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &elements->buffer, flags) != 0) {
    PyErr_Clear();
    return 0;
  }
  const struct Element* element = ElementOf(elements->buffer.format);
  elements->dtype = element->dtype_and_one - 1;
  elements->shift = element->shift;
  elements->count = (size_t)elements->buffer.len >> element->shift;
  if (elements->dtype >= 0 && elements->count != 0 &&
      elements->buffer.itemsize == (Py_ssize_t)1 << element->shift) {
    return 1;
  }
  PyBuffer_Release(&elements->buffer);
  return 0;
}

/* What a call needs: `count` is that of one rank's part. */
struct Call {
  const void* in;
  void* out;
  size_t count;
  int dtype;
  int op;
  int root;
};

static weft_result_t Issue(enum Kind kind, const struct Call* call, weft_group_t group) {
  switch (kind) {
    case kAllReduce:
      return weft_all_reduce(call->in, call->out, call->count, call->dtype, call->op, group, NULL,
                             NULL);
    case kReduce:
      return weft_reduce(call->in, call->out, call->count, call->dtype, call->op, call->root, group,
                         NULL, NULL);
    case kBroadcast:
      return weft_broadcast(call->in, call->out, call->count, call->dtype, call->root, group, NULL,
                            NULL);
    case kAllGather:
      return weft_all_gather(call->in, call->out, call->count, call->dtype, group, NULL, NULL);
    case kReduceScatter:
      return weft_reduce_scatter(call->in, call->out, call->count, call->dtype, call->op, group,
                                 NULL, NULL);
    case kAllToAll:
      return weft_all_to_all(call->in, call->out, call->count, call->dtype, group, NULL, NULL);
    case kKindCount:
      break;
  }
  return WEFT_INVALID_ARGUMENT;
}

/* Parts of one rank's count: in the input and in the output. */
static size_t InParts(enum Kind kind, size_t size) {
  return kind == kReduceScatter || kind == kAllToAll ? size : 1;
}

static size_t OutParts(enum Kind kind, size_t size) {
  return kind == kAllGather || kind == kAllToAll ? size : 1;
}

/* Where this rank's part of `elements` lies. */
static char* OwnPart(const struct Elements* elements, const struct Quick* quick, size_t count) {
  return (char*)elements->buffer.buf + (((size_t)quick->rank * count) << elements->shift);
}

/* Of one buffer, which is both: `in_` is what it was given as. False if that is not taken. */
static int InPlace(const struct Quick* quick, enum Kind kind, int is_in,
                   const struct Elements* elements, struct Call* call) {
  const size_t size = (size_t)quick->size;
  const size_t parts = is_in ? InParts(kind, size) : OutParts(kind, size);
  call->count = elements->count / parts;
  call->dtype = elements->dtype;
  call->in = call->out = elements->buffer.buf;
  if (call->count * parts != elements->count) return 0;
  if (is_in && kind == kReduceScatter) call->out = OwnPart(elements, quick, call->count);
  if (is_in) return kind != kAllGather;
  call->in = OwnPart(elements, quick, call->count);
  return kind == kAllGather;
}

static int Apart(const struct Quick* quick, enum Kind kind, const struct Elements* in,
                 const struct Elements* out, struct Call* call) {
  const size_t size = (size_t)quick->size;
  call->count = in->count / InParts(kind, size);
  call->dtype = in->dtype;
  call->in = in->buffer.buf;
  call->out = out->buffer.buf;
  return in->dtype == out->dtype && call->count * InParts(kind, size) == in->count &&
         call->count * OutParts(kind, size) == out->count;
}

/* Of a rank that has one of two buffers. */
static void Alone(const struct Elements* elements, int is_in, struct Call* call) {
  call->count = elements->count;
  call->dtype = elements->dtype;
  call->in = is_in ? elements->buffer.buf : NULL;
  call->out = is_in ? NULL : elements->buffer.buf;
}

static PyObject* Run(struct Quick* quick, enum Kind kind, const struct Call* call) {
  weft_result_t result;
  Py_BEGIN_ALLOW_THREADS;
  result = Issue(kind, call, quick->group);
  Py_END_ALLOW_THREADS;
  if (result == WEFT_SUCCESS) Py_RETURN_TRUE;
  return PyLong_FromLong(result);
}

static int IntOf(PyObject* object, int* number) {
  const long value = PyLong_Check(object) ? PyLong_AsLong(object) : -1;
  if (value == -1 && PyErr_Occurred() != NULL) PyErr_Clear();
  *number = (int)value;
  return value >= 0 && value <= INT_MAX;
}

static PyObject* QuickRun(PyObject* self, PyObject* const* arguments, Py_ssize_t argument_count) {
  struct Quick* quick = (struct Quick*)self;
  int number = kKindCount;
  struct Call call;
  if (argument_count != 5) {
    PyErr_SetString(PyExc_TypeError, "run(kind, in_, out, op, root)");
    return NULL;
  }
  if (!IntOf(arguments[0], &number) || number >= kKindCount || !IntOf(arguments[3], &call.op) ||
      !IntOf(arguments[4], &call.root)) {
    Py_RETURN_NONE;
  }
  const enum Kind kind = (enum Kind)number;
  PyObject* const given = arguments[1];
  PyObject* const taken = arguments[2];
  const int is_root = quick->rank == call.root;
  const int needs_in = kind != kBroadcast || is_root || taken == Py_None;
  const int needs_out = kind != kReduce || is_root;
  struct Elements in, out;
  const int has_in = needs_in && given != Py_None;
  const int has_out = needs_out && taken != Py_None;
  if (has_in && !Hold(given, needs_out && !has_out, &in)) Py_RETURN_NONE;
  if (has_out && !Hold(taken, 1, &out)) {
    if (has_in) PyBuffer_Release(&in.buffer);
    Py_RETURN_NONE;
  }
  int fits = 1;
  if (has_in && has_out) {
    fits = Apart(quick, kind, &in, &out, &call);
  } else if (needs_in && needs_out) {
    fits = (has_in || has_out) && InPlace(quick, kind, has_in, has_in ? &in : &out, &call);
  } else {
    fits = has_in || has_out;
    if (fits) Alone(has_in ? &in : &out, has_in, &call);
  }
  PyObject* done = fits ? Run(quick, kind, &call) : Py_NewRef(Py_None);
  if (has_in) PyBuffer_Release(&in.buffer);
  if (has_out) PyBuffer_Release(&out.buffer);
  return done;
}

static PyObject* QuickNew(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  PyObject *address = NULL, *holder = NULL;
  int rank = 0, size = 0;
  if (!PyArg_ParseTuple(arguments, "OOii", &address, &holder, &rank, &size)) return NULL;
  weft_group_t group = PyLong_AsVoidPtr(address);
  if (group == NULL && PyErr_Occurred() != NULL) return NULL;
  const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  struct Quick* quick = (struct Quick*)allocate(type, 0);
  if (quick == NULL) return NULL;
  quick->group = group;
  quick->holder = Py_NewRef(holder);
  quick->rank = rank;
  quick->size = size;
  return (PyObject*)quick;
}

static void QuickDelete(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(((struct Quick*)self)->holder);
  const freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

/* set_formats({"f": (dtype, shift), "=f": ...}) */
static PyObject* SetFormats(PyObject* module, PyObject* formats) {
  (void)module;
  PyObject *format, *described;
  Py_ssize_t position = 0;
  if (!PyDict_Check(formats)) {
    PyErr_SetString(PyExc_TypeError, "formats must be a dict");
    return NULL;
  }
  while (PyDict_Next(formats, &position, &format, &described)) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(format, &length);
    int dtype = 0, shift = 0;
    if (text == NULL || !PyArg_ParseTuple(described, "ii", &dtype, &shift)) return NULL;
    if (length == 0) continue;
    struct Element* elements = length == 1 ? native_elements : standard_elements;
    if (text[0] == '@') continue; /* as without it */
    elements[(unsigned char)text[length - 1]] =
        (struct Element){.dtype_and_one = (uint8_t)(dtype + 1), .shift = (uint8_t)shift};
  }
  Py_RETURN_NONE;
}

static PyMethodDef quick_methods[] = {
    {"run", (PyCFunction)(void (*)(void))QuickRun, METH_FASTCALL, "See the top of quick.c."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot quick_slots[] = {
    {Py_tp_new, (void*)QuickNew},
    {Py_tp_dealloc, (void*)QuickDelete},
    {Py_tp_methods, quick_methods},
    {0, NULL},
};

static PyType_Spec quick_spec = {.name = "weft_quick.Quick",
                                 .basicsize = sizeof(struct Quick),
                                 .flags = Py_TPFLAGS_DEFAULT,
                                 .slots = quick_slots};

static int Execute(PyObject* module) {
  PyObject* type = PyType_FromSpec(&quick_spec);
  if (type == NULL) return -1;
  const int added = PyModule_AddObjectRef(module, "Quick", type);
  Py_DECREF(type);
  return added != 0 ? -1 : PyModule_AddStringConstant(module, "VERSION", WEFT_VERSION_STRING);
}

static PyMethodDef module_methods[] = {
    {"set_formats", SetFormats, METH_O, "See SetFormats in quick.c."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void*)Execute},
    {0, NULL},
};

static struct PyModuleDef module_definition = {.m_base = PyModuleDef_HEAD_INIT,
                                               .m_name = "weft_quick",
                                               .m_methods = module_methods,
                                               .m_slots = module_slots};

// Python's own name. NOLINTNEXTLINE(readability-identifier-naming)
PyMODINIT_FUNC PyInit_weft_quick(void) {
  return PyModuleDef_Init(&module_definition);
}
