# find_package(Kumiki) gives the targets Kumiki::Kumiki (dynamic; Kumiki::kumiki is the same) and Kumiki::Static.
get_filename_component(_kumiki_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET Kumiki::Kumiki)
  add_library(Kumiki::Kumiki SHARED IMPORTED)
  set_target_properties(Kumiki::Kumiki PROPERTIES
    IMPORTED_LOCATION "${_kumiki_prefix}/lib/libkumiki.so"
    # Kept where linkers drop what nobody has asked for yet. One option: CMake takes away those that come again.
    INTERFACE_LINK_OPTIONS "LINKER:--push-state,--no-as-needed,${_kumiki_prefix}/lib/libkumiki.so,--pop-state"
    INTERFACE_INCLUDE_DIRECTORIES "${_kumiki_prefix}/include")
endif()

if(NOT TARGET Kumiki::kumiki)
  add_library(Kumiki::kumiki INTERFACE IMPORTED)
  set_target_properties(Kumiki::kumiki PROPERTIES INTERFACE_LINK_LIBRARIES Kumiki::Kumiki)
endif()

if(NOT TARGET Kumiki::Static)
  add_library(Kumiki::Static STATIC IMPORTED)
  set_target_properties(Kumiki::Static PROPERTIES
    IMPORTED_LOCATION "${_kumiki_prefix}/lib/libkumiki.a"
    INTERFACE_LINK_LIBRARIES "rt;pthread;m;dl"
    INTERFACE_LINK_OPTIONS "-Wl,-u,pthread_cond_broadcast,-u,pthread_cond_destroy,-u,pthread_cond_init,-u,pthread_cond_wait,-u,pthread_create,-u,pthread_getspecific,-u,pthread_join,-u,pthread_key_create,-u,pthread_key_delete,-u,pthread_mutex_destroy,-u,pthread_mutex_init,-u,pthread_mutex_lock,-u,pthread_mutex_trylock,-u,pthread_mutex_unlock,-u,pthread_once,-u,pthread_rwlock_destroy,-u,pthread_rwlock_init,-u,pthread_rwlock_rdlock,-u,pthread_rwlock_tryrdlock,-u,pthread_rwlock_trywrlock,-u,pthread_rwlock_unlock,-u,pthread_rwlock_wrlock,-u,pthread_self,-u,pthread_setspecific"
    INTERFACE_INCLUDE_DIRECTORIES "${_kumiki_prefix}/include")
endif()

set(Kumiki_ACPRUN "${_kumiki_prefix}/bin/acprun")
unset(_kumiki_prefix)
