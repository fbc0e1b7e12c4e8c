# The machine profiles become part of fitstep_machine, so that the installed command finds them.
file(GLOB profiles CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fitstep/machine/profiles/*.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${profiles})
list(LENGTH profiles profile_count)
set(profile_entries "")
foreach(path ${profiles})
  get_filename_component(name ${path} NAME_WE)
  file(READ ${path} json)
  string(APPEND profile_entries "    {\"${name}\", R\"json(${json})json\"},\n")
endforeach()
set(profile_source ${PROJECT_BINARY_DIR}/profiles_data.cpp)
file(CONFIGURE OUTPUT ${profile_source} @ONLY CONTENT [=[
// Made by cmake/profiles.cmake from fitstep/machine/profiles/.
#include <array>
#include <span>

#include "fitstep/machine/profiles.h"

namespace fitstep {
namespace {

constexpr std::array<Profile, @profile_count@> kProfiles = {{
@profile_entries@}};

}  // namespace

std::span<const Profile> profiles() { return kProfiles; }

}  // namespace fitstep
]=])
target_sources(fitstep_machine PRIVATE ${profile_source})
