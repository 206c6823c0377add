// onggi._palette: the palette codec on memory that Python owns, without the interpreter's lock.
#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>

#include <nanobind/nanobind.h>

#include "palette.h"

namespace nb = nanobind;

namespace {

// A contiguous buffer of T for the time of a call.
template <typename T>
class View {
 public:
  View(nb::handle object, bool writable) {
    const int flags = writable ? PyBUF_WRITABLE : PyBUF_SIMPLE;
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~View() { PyBuffer_Release(&view_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  std::span<T> items() const {
    return {static_cast<T*>(view_.buf), static_cast<std::size_t>(view_.len) / sizeof(T)};
  }

 private:
  Py_buffer view_{};
};

void check_shape(std::size_t values, std::size_t indices, std::size_t tables, std::size_t channels,
                 std::size_t plane) {
  const bool fits = channels > 0 && plane > 0 && channels <= values / plane &&
                    values % (channels * plane) == 0 && indices == values &&
                    tables == channels * onggi::python::kPaletteSize;
  if (!fits) throw std::invalid_argument("the buffers do not fit the shape");
}

bool encode(nb::handle values, std::size_t channels, std::size_t plane, nb::handle indices,
            nb::handle tables) {
  const View<std::uint32_t> in(values, false);
  const View<std::uint8_t> out(indices, true);
  const View<std::uint32_t> table(tables, true);
  check_shape(in.items().size(), out.items().size(), table.items().size(), channels, plane);
  const nb::gil_scoped_release unlocked;
  return onggi::python::palette_encode(in.items(), channels, plane, out.items(), table.items());
}

void decode(nb::handle indices, std::size_t channels, std::size_t plane, nb::handle tables,
            nb::handle values) {
  const View<std::uint8_t> in(indices, false);
  const View<std::uint32_t> table(tables, false);
  const View<std::uint32_t> out(values, true);
  check_shape(out.items().size(), in.items().size(), table.items().size(), channels, plane);
  const nb::gil_scoped_release unlocked;
  onggi::python::palette_decode(in.items(), channels, plane, table.items(), out.items());
}

}  // namespace

NB_MODULE(_palette, m) {
  m.doc() = "Float tensors of at most 256 values a channel as bytes and tables, exact to the bit.";
  m.def("encode", &encode, nb::arg("values"), nb::arg("channels"), nb::arg("plane"),
        nb::arg("indices"), nb::arg("tables"));
  m.def("decode", &decode, nb::arg("indices"), nb::arg("channels"), nb::arg("plane"),
        nb::arg("tables"), nb::arg("values"));
}
