# find_package(Waitio) gives the targets Waitio::Waitio and Waitio::Mpi (and, by the names of the libraries, Waitio::waitio and Waitio::waitio_mpi).
get_filename_component(_waitio_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

foreach(_waitio_name Waitio Mpi waitio waitio_mpi)
  if(NOT TARGET Waitio::${_waitio_name})
    add_library(Waitio::${_waitio_name} SHARED IMPORTED)
    set_target_properties(Waitio::${_waitio_name} PROPERTIES
      IMPORTED_LOCATION "${_waitio_prefix}/lib/libkumiki.so"
      # Kept where linkers drop what nobody has asked for yet. One option: CMake takes away those that come again.
      INTERFACE_LINK_OPTIONS "LINKER:--push-state,--no-as-needed,${_waitio_prefix}/lib/libkumiki.so,--pop-state"
      INTERFACE_INCLUDE_DIRECTORIES "${_waitio_prefix}/include")
  endif()
endforeach()

set(Waitio_SERV "${_waitio_prefix}/bin/waitio-serv")
unset(_waitio_name)
unset(_waitio_prefix)
