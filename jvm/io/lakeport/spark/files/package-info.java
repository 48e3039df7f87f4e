/** The files of a scan: a file system over the URLs that the driver hands out. */
package io.lakeport.spark.files;
