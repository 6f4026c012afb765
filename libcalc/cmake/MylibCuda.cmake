# Finds a CUDA toolkit, checks that it works, and enables the CUDA language with it.
#
# Sets MYLIB_HAS_CUDA (0 or 1) and, for users, MYLIB_CUDA_VERSION, MYLIB_CUDA_ARCHITECTURES,
# MYLIB_CUDA_SEARCHED (one line) and MYLIB_CUDA_SUMMARY (lines of the log).
#
# The order: CMAKE_CUDA_COMPILER, CUDACXX, CUDA_HOME, CUDA_PATH, nvcc on the PATH, the usual places.
# CMake alone ignores CUDA_HOME, and blames the architecture when it finds no nvcc.  A variable that
# is set but holds no nvcc is an error.

set(MYLIB_CUDA_PLACES "/usr/local/cuda;/usr/local/cuda-*;/opt/cuda" CACHE STRING
    "Where a CUDA toolkit is looked for last; * matches the newest")
mark_as_advanced(MYLIB_CUDA_PLACES)

set(MYLIB_HAS_CUDA 0)
set(MYLIB_CUDA_VERSION "")
set(MYLIB_CUDA_ARCHITECTURES "")
set(MYLIB_CUDA_SEARCHED "")
set(MYLIB_CUDA_SUMMARY "")

# nvcc_var: the path of nvcc, false when there is none; how_var: how it was found; searched_var: one line.
function(mylib_find_nvcc nvcc_var how_var searched_var)
  set(searched "CUDACXX (not set)" "CUDA_HOME (not set)" "CUDA_PATH (not set)"
    "nvcc on the PATH (not found)")
  set(nvcc NOTFOUND)
  if(CMAKE_CUDA_COMPILER)
    set(nvcc "${CMAKE_CUDA_COMPILER}")
    set(how "CMAKE_CUDA_COMPILER")
  endif()

  if(NOT nvcc AND NOT "$ENV{CUDACXX}" STREQUAL "")
    find_program(nvcc NAMES "$ENV{CUDACXX}" NO_CACHE)
    if(NOT nvcc)
      message(FATAL_ERROR
        "CUDACXX is set to '$ENV{CUDACXX}', which is not a program.\n"
        "Set it to the path of nvcc, unset it, or set MYLIB_CUDA=OFF to build without CUDA.")
    endif()
    set(how "CUDACXX")
  endif()

  foreach(variable CUDA_HOME CUDA_PATH)
    if(NOT nvcc AND NOT "$ENV{${variable}}" STREQUAL "")
      set(nvcc "$ENV{${variable}}/bin/nvcc")
      set(how "${variable}")
      if(NOT EXISTS "${nvcc}")
        message(FATAL_ERROR
          "${variable} is set to '$ENV{${variable}}', but there is no bin/nvcc in it.\n"
          "Set it to the root of a CUDA toolkit (with its compiler), unset it, or set MYLIB_CUDA=OFF "
          "to build without CUDA.")
      endif()
    endif()
  endforeach()

  if(NOT nvcc)
    find_program(nvcc NAMES nvcc PATHS ENV PATH NO_DEFAULT_PATH NO_CACHE)
    set(how "the PATH")
  endif()

  foreach(place IN LISTS MYLIB_CUDA_PLACES)
    if(NOT nvcc)
      file(GLOB candidates "${place}/bin/nvcc")
      list(SORT candidates COMPARE NATURAL ORDER DESCENDING)
      list(POP_FRONT candidates nvcc)
      set(how "the usual places")
      list(APPEND searched "${place} (no bin/nvcc)")
    endif()
  endforeach()

  list(JOIN searched ", " searched)
  set(${nvcc_var} "${nvcc}" PARENT_SCOPE)
  set(${how_var} "${how}" PARENT_SCOPE)
  set(${searched_var} "${searched}" PARENT_SCOPE)
endfunction()

# Compiles and links a small program; if that fails, says what to do about it.
function(mylib_check_nvcc nvcc version_var)
  set(otherwise "Or set MYLIB_CUDA=OFF to build without CUDA.")
  execute_process(COMMAND "${nvcc}" --version
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0 OR NOT output MATCHES "release ([0-9]+)\\.([0-9]+)")
    message(FATAL_ERROR "${nvcc} --version failed (${status}); it is no working nvcc:\n${output}\n"
      "Install the CUDA toolkit again, or point CUDACXX to the right nvcc.  ${otherwise}")
  endif()
  set(major "${CMAKE_MATCH_1}")
  set(minor "${CMAKE_MATCH_2}")
  if(major LESS 12)
    message(FATAL_ERROR "${nvcc} is of CUDA ${major}.${minor}; CUDA 12 or newer is needed.\n"
      "Install a newer toolkit and point CUDA_HOME to it.  ${otherwise}")
  endif()

  set(probe "${CMAKE_CURRENT_BINARY_DIR}/cuda_probe")
  file(WRITE "${probe}.cu" [[
#include <cuda_runtime.h>
int mylib_header_version = CUDART_VERSION;
#if CUDART_VERSION / 10 != __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__
#ifndef MYLIB_ANY_VERSION
#error the toolkit and its header disagree
#endif
#endif
__global__ void kernel(int *p) { *p = 1; }
int main() { int *p = 0; kernel<<<1, 1>>>(p); return cudaDeviceSynchronize() != cudaSuccess; }
]])
  set(flags "")
  if(CMAKE_CUDA_FLAGS)
    separate_arguments(flags UNIX_COMMAND "${CMAKE_CUDA_FLAGS}")
  elseif(DEFINED ENV{CUDAFLAGS})
    separate_arguments(flags UNIX_COMMAND "$ENV{CUDAFLAGS}")
  endif()
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND flags "-ccbin=${CMAKE_CUDA_HOST_COMPILER}")
  endif()
  execute_process(COMMAND "${nvcc}" ${flags} "${probe}.cu" -o "${probe}"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(${version_var} "${major}.${minor}" PARENT_SCOPE)
  if(status EQUAL 0)
    return()
  endif()

  set(host "${CMAKE_CUDA_HOST_COMPILER}")
  if(NOT host)
    set(host "g++")
  endif()
  if(output MATCHES "unsupported (GNU|clang) version|unsupported .*host compiler")
    execute_process(COMMAND "${host}" --version OUTPUT_VARIABLE host_version ERROR_QUIET)
    string(REGEX REPLACE "\n.*" "" host_version "${host_version}")
    set(others "")
    foreach(number RANGE 20 9 -1)
      find_program(other_${number} NAMES "g++-${number}" NO_CACHE)
      if(other_${number})
        list(APPEND others "${other_${number}}")
      endif()
    endforeach()
    list(JOIN others ", " others)
    if(NOT others)
      set(others "none; Debian, Ubuntu: apt install g++-12")
    endif()
    message(FATAL_ERROR
      "The C++ compiler is not one that nvcc ${major}.${minor} supports (usually: it is too new).\n"
      "  nvcc:          ${nvcc}\n"
      "  C++ compiler:  ${host} (${host_version})\n"
      "Set NVCC_CCBIN (or CUDAHOSTCXX) to an older one; versions of g++ on the PATH: ${others}.\n"
      "Or install a newer CUDA toolkit.  ${otherwise}\n"
      "What nvcc said:\n${output}")
  endif()
  if(output MATCHES "the toolkit and its header disagree")
    execute_process(COMMAND "${nvcc}" ${flags} -DMYLIB_ANY_VERSION -E "${probe}.cu"
      OUTPUT_VARIABLE preprocessed ERROR_QUIET)
    string(REGEX MATCH "[^\"\n]+/cuda_runtime\\.h" header "${preprocessed}")
    string(REGEX MATCH "mylib_header_version = ([0-9]+)" header_version "${preprocessed}")
    message(FATAL_ERROR
      "The CUDA compiler and the CUDA headers are of different versions.\n"
      "  nvcc:            ${nvcc}, CUDA ${major}.${minor}\n"
      "  cuda_runtime.h:  ${header}, version ${CMAKE_MATCH_1} (13000 would be CUDA 13.0)\n"
      "Two toolkits are mixed.  If CUDAFLAGS, NVCC_PREPEND_FLAGS, NVCC_APPEND_FLAGS or CPATH names a "
      "folder of the other one, remove it there; else install one toolkit as a whole (not its compiler "
      "and its headers from different packages) and point CUDA_HOME to it.  ${otherwise}")
  endif()
  if(output MATCHES "cuda_runtime\\.h: No such file|cannot find -lcudart_static|cannot open source file \"cuda_runtime\\.h\"|cannot find -lcudadevrt")
    message(FATAL_ERROR
      "The CUDA toolkit of ${nvcc} is incomplete: cuda_runtime.h or libcudart_static.a is missing.\n"
      "Install its development files (NVIDIA's packages: cuda-cudart-dev-${major}-${minor}; conda: "
      "cuda-cudart-dev cuda-cudart-static).  ${otherwise}\n"
      "What nvcc said:\n${output}")
  endif()
  message(FATAL_ERROR
    "${nvcc} (CUDA ${major}.${minor}) cannot compile and link a small program with the C++ compiler "
    "'${host}'.\n"
    "Check that a C++ compiler is installed (Debian, Ubuntu: apt install g++); NVCC_CCBIN or CUDAHOSTCXX "
    "chooses another.  ${otherwise}\n"
    "What nvcc said:\n${output}")
endfunction()

# The architectures of the GPUs in this machine that nvcc can build for; "" when there are none.
function(mylib_local_architectures nvcc architectures_var)
  set(${architectures_var} "" PARENT_SCOPE)
  find_program(nvidia_smi NAMES nvidia-smi NO_CACHE)
  if(NOT nvidia_smi)
    return()
  endif()
  execute_process(COMMAND "${nvidia_smi}" --query-gpu=compute_cap --format=csv,noheader
    TIMEOUT 30 RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_QUIET)
  execute_process(COMMAND "${nvcc}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  if(NOT status EQUAL 0)
    return()
  endif()
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" present "${output}")
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  list(SORT known COMPARE NATURAL)
  set(chosen "")
  foreach(capability IN LISTS present)
    string(REPLACE "." "" wanted "${capability}")
    set(best "")
    foreach(architecture IN LISTS known)
      # Code for an older minor version runs; for an older major one the driver compiles PTX.
      if(NOT architecture GREATER wanted AND NOT architecture LESS 61)
        set(best "${architecture}")
      endif()
    endforeach()
    if(best STREQUAL "")
      message(WARNING "This machine has a GPU of compute capability ${capability}: the library needs "
        "6.1, CUDA 13 needs 7.5.")
    else()
      list(APPEND chosen "${best}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES chosen)
  set(${architectures_var} "${chosen}" PARENT_SCOPE)
endfunction()

set(nvcc "")
if(MYLIB_CUDA STREQUAL "OFF")
  set(MYLIB_CUDA_SEARCHED "nowhere, as the build was asked to leave CUDA out (MYLIB_CUDA=OFF)")
  list(APPEND MYLIB_CUDA_SUMMARY "CUDA         off (MYLIB_CUDA=OFF)")
else()
  mylib_find_nvcc(nvcc nvcc_how MYLIB_CUDA_SEARCHED)
  if(NOT nvcc)
    if(MYLIB_CUDA STREQUAL "ON")
      message(FATAL_ERROR
        "MYLIB_CUDA=ON, but no CUDA toolkit was found.  Looked for: ${MYLIB_CUDA_SEARCHED}.\n"
        "Install the CUDA toolkit (12 or newer), or set CUDA_HOME to where it is.  With MYLIB_CUDA=AUTO the "
        "library is built for the CPU alone.")
    endif()
    list(APPEND MYLIB_CUDA_SUMMARY
      "CUDA         not found: the library is built for the CPU alone"
      "             looked for: ${MYLIB_CUDA_SEARCHED}")
  endif()
endif()

if(nvcc)
  # nvcc passes folders of headers to other programs without quoting them; it splits them at commas.
  foreach(folder IN ITEMS "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_BINARY_DIR}")
    if(folder MATCHES "['`\",]")
      message(FATAL_ERROR
        "nvcc finds no headers in a folder whose path holds ${CMAKE_MATCH_0}, as ${folder} does.\n"
        "Build in another folder, or set MYLIB_CUDA=OFF to build without CUDA.")
    endif()
  endforeach()
  if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT CMAKE_CUDA_COMPILER_LOADED)
    foreach(variable CUDAHOSTCXX NVCC_CCBIN)
      if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT "$ENV{${variable}}" STREQUAL "")
        set(CMAKE_CUDA_HOST_COMPILER "$ENV{${variable}}" CACHE FILEPATH "The C++ compiler that nvcc uses")
      endif()
    endforeach()
  endif()
  if(NOT MYLIB_CUDA_CHECKED STREQUAL "${nvcc}")
    message(STATUS "Checking ${nvcc}")
    mylib_check_nvcc("${nvcc}" MYLIB_CUDA_VERSION)
    set(MYLIB_CUDA_CHECKED "${nvcc}" CACHE INTERNAL "The nvcc that was found to work")
  endif()

  set(how "given")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    if(NOT "$ENV{CUDAARCHS}" STREQUAL "")
      set(architectures "$ENV{CUDAARCHS}")
      set(how "CUDAARCHS")
    else()
      mylib_local_architectures("${nvcc}" architectures)
      set(how "of this machine's GPU")
      if(NOT architectures)
        # Every major architecture, and PTX of the newest for later ones.
        set(architectures all-major)
        if(MYLIB_CUDA_VERSION VERSION_LESS 13) # the oldest lack __dp4a
          set(architectures "70-real;80-real;90")
        endif()
        set(how "no GPU here to build for")
      endif()
    endif()
    set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "CUDA architectures to build for")
    set(MYLIB_CUDA_ARCHITECTURES_HOW "${how}" CACHE INTERNAL "")
  elseif(DEFINED MYLIB_CUDA_ARCHITECTURES_HOW)
    set(how "${MYLIB_CUDA_ARCHITECTURES_HOW}")
  endif()

  set(CMAKE_CUDA_COMPILER "${nvcc}" CACHE FILEPATH "nvcc")
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)

  # Halves the library; older compilers compress less.
  execute_process(COMMAND "${nvcc}" --help OUTPUT_VARIABLE nvcc_help ERROR_QUIET)
  if(nvcc_help MATCHES "--compress-mode")
    set(MYLIB_CUDA_COMPRESS "--compress-mode=size")
  else()
    set(MYLIB_CUDA_COMPRESS "-Xfatbin=-compress-all")
  endif()
  # Programs then find an operation by a jump, not by comparisons; older compilers lack it.
  set(MYLIB_CUDA_JUMPS "")
  if(nvcc_help MATCHES "--jump-table-density")
    set(MYLIB_CUDA_JUMPS "--jump-table-density=50")
  endif()

  set(MYLIB_HAS_CUDA 1)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" MYLIB_CUDA_VERSION "${CMAKE_CUDA_COMPILER_VERSION}")
  set(MYLIB_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
  set(MYLIB_CUDA_SEARCHED "${nvcc_how}: ${nvcc}")
  set(host "${CMAKE_CUDA_HOST_COMPILER}")
  if(NOT host)
    set(host "nvcc's default")
  endif()
  list(JOIN CMAKE_CUDA_ARCHITECTURES " " architectures)
  list(APPEND MYLIB_CUDA_SUMMARY
    "CUDA         ${MYLIB_CUDA_VERSION} (${nvcc}, found through ${nvcc_how})"
    "             architectures ${architectures} (${how}), C++ compiler ${host}")
endif()
