/* Notes which lines of compiled sources run. A tracer in Python would take hours for the tests.
 *
 * Loaded with ctypes.PyDLL, so that the interpreter's lock is held in the exported functions.
 */
#include <Python.h>
#include <string.h>

#define FILES_MAX 64
#define LINES_MAX 4096

static PyObject *file_names[FILES_MAX]; /* a reference each; compared by identity first */
static unsigned char lines[FILES_MAX][LINES_MAX];
static int files;

static int is_compiled_source(PyObject *name) {
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL) {
        PyErr_Clear();
        return 0;
    }
    return length > 4 && (!strcmp(text + length - 4, ".pyx") || !strcmp(text + length - 4, ".pxd"));
}

static int file_number(PyObject *name) {
    static PyObject *last_other; /* a file that is not of interest, seen last */
    if (name == last_other) return -1;
    for (int i = 0; i < files; i++)
        if (file_names[i] == name) return i;
    if (!is_compiled_source(name) || files == FILES_MAX) {
        Py_INCREF(name);
        Py_XDECREF(last_other);
        last_other = name;
        return -1;
    }
    Py_INCREF(name);
    file_names[files] = name;
    return files++;
}

static int trace(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    (void)self, (void)argument;
    if (what != PyTrace_LINE) return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    int file = file_number(code->co_filename), line = PyFrame_GetLineNumber(frame);
    Py_DECREF(code);
    if (file >= 0 && line > 0 && line < LINES_MAX) lines[file][line] = 1;
    return 0;
}

/* Traces this thread from now on. */
void tracing_starts(void) { PyEval_SetTrace(trace, NULL); }

/* Returns a list of (file, line), one for each line that ran; a file may occur under two names. */
PyObject *lines_seen(void) {
    PyObject *seen = PyList_New(0);
    for (int file = 0; seen != NULL && file < files; file++)
        for (int line = 1; line < LINES_MAX; line++)
            if (lines[file][line]) {
                PyObject *pair = Py_BuildValue("(Oi)", file_names[file], line);
                if (pair == NULL || PyList_Append(seen, pair) < 0) Py_CLEAR(seen);
                Py_XDECREF(pair);
                if (seen == NULL) return NULL;
            }
    return seen;
}
