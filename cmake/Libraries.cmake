# Every library we build on, found once. All come from Debian 12 packages (packaging/packages.txt);
# nothing is downloaded at configure time.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(CURL REQUIRED)
find_package(SQLite3 REQUIRED)
if(ONGGI_TESTS)
  find_package(GTest REQUIRED)
endif()

# Libraries without a CMake package of their own become targets named after their pkg-config module.
foreach(library IN ITEMS libxxhash libjwt libseccomp hiredis)
  pkg_check_modules(${library} REQUIRED IMPORTED_TARGET ${library})
endforeach()
