# GPUs that the CPU emulates: the library's own CUDA files over a CUDA runtime of our own, which does
# on the CPU what kernels do.  Included by the library's CMakeLists.txt with -DMYLIB_EMULATED_GPUS=N;
# adds to `sources`.

set(MYLIB_EMULATED_KERNELS "" CACHE PATH
    "For tests: with the include directory of a CUDA toolkit emulated GPUs run the fused kernels")
mark_as_advanced(MYLIB_EMULATED_KERNELS)

set(emulation tests/emulated_kernels.c tests/cuda_standin/cuda_standin.c)
list(APPEND sources ${emulation})
# Little temporary memory, so that short arrays are computed in pieces too.
set_source_files_properties(${cuda_sources} ${emulation} PROPERTIES
  INCLUDE_DIRECTORIES "${CMAKE_CURRENT_SOURCE_DIR}/tests/cuda_standin"
  COMPILE_DEFINITIONS
  "MYLIB_EMULATED_GPUS=${MYLIB_EMULATED_GPUS};MYLIB_TEMPORARY_NBYTES=65536;MYLIB_STREAMED_NBYTES=262144;ALL_GPUS_NBYTES=131072;MYLIB_TABLED_LEAST=1000;ENOUGH_BLOCKS_OF_TERMS=8;LEAST_OUTPUTS=16;LEAST_TRANSPOSED_NBYTES=4096;LEAST_TRANSPOSED_RUN=100;$<$<BOOL:${MYLIB_EMULATED_KERNELS}>:MYLIB_EMULATED_KERNELS>")
if(MYLIB_EMULATED_KERNELS AND MYLIB_CUDA_FUSED)
  enable_language(CXX)
  set(on_cpu tests/kernels_on_cpu.cpp tests/reductions_on_cpu.cpp tests/functions_on_cpu.cpp
    tests/strided_on_cpu.cpp)
  list(APPEND sources ${on_cpu})
  # These have much code that runs little: optimizing it would take longer than running it.
  set(options -std=c++17 -w -O0 -ffp-contract=off -fno-strict-aliasing -fno-exceptions -fno-rtti)
  if(MYLIB_SANITIZE)
    list(APPEND options "-fsanitize=${sanitize}" -fno-sanitize-recover=all)
  endif()
  set_source_files_properties(${on_cpu} PROPERTIES
    COMPILE_OPTIONS "${options}" INCLUDE_DIRECTORIES "${MYLIB_EMULATED_KERNELS}")
  # The functions themselves are those of the CPU, where sanitizers see them.
  set_source_files_properties(tests/functions_on_cpu.cpp PROPERTIES
    COMPILE_OPTIONS "${options};-fno-sanitize=undefined")
endif()
