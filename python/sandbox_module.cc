// onggi._sandbox: what a Python zygote needs of the walls.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "active/sandbox/order.h"
#include "active/sandbox/zygote.h"
#include "base/checksum.h"

namespace nb = nanobind;

namespace {

std::uint64_t checksum(nb::handle data) {
  Py_buffer view;
  if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const std::uint64_t digest = onggi::xxh3(
      std::span(static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len)));
  PyBuffer_Release(&view);
  return digest;
}

// An exception would end a worker that can do without its rehearsal.
void call_and_report(const nb::callable& function) {
  try {
    function();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable(function);
  }
}

nb::dict serve(int control_fd, const std::string& information,
               const std::vector<std::string>& binds, const nb::callable& rehearse) {
  onggi::active::ZygoteOptions options;
  options.control_fd = control_fd;
  options.information = information;
  options.binds = binds;
  options.hooks = {.before = [] { PyOS_BeforeFork(); },
                   .in_parent = [] { PyOS_AfterFork_Parent(); },
                   .in_child = [] { PyOS_AfterFork_Child(); }};
  options.rehearse = [&rehearse] { call_and_report(rehearse); };
  const auto status = onggi::active::serve_zygote(options);
  if (!status) {
    if (status.error().code() == onggi::ErrorCode::cancelled) {
      throw nb::builtin_exception(nb::exception_type::stop_iteration, "the broker has gone");
    }
    throw std::runtime_error(status.error().message());
  }
  nb::dict order;
  order["socket_fd"] = onggi::active::kWorkerSocketFd;
  order["arena_fd"] = onggi::active::kWorkerArenaFd;
  return order;
}

}  // namespace

NB_MODULE(_sandbox, m) {
  m.doc() = "The walls around a worker. Only a zygote that the broker started uses this.";
  m.def("xxh3", &checksum, nb::arg("data"));
  m.def("serve", &serve, nb::arg("control_fd"), nb::arg("information"), nb::arg("binds"),
        nb::arg("rehearse"));
  m.def("report_failure", &onggi::active::report_zygote_failure, nb::arg("control_fd"),
        nb::arg("text"));
}
